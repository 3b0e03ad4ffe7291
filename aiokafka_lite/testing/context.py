"""The context of an API's `handle` function, and its possible results.

A result is a response message, `None` (no response: Produce with acks=0), a `Delayed` that
becomes a response later, or a raised `CloseConnection`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias
from uuid import UUID

from aiokafka_lite.errors import InvalidGroupIdError, for_code
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.testing.client_session import Session
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.groups.base_group import Group
from aiokafka_lite.testing.security.acl_table import Operation, Resource, operations_of, refusal
from aiokafka_lite.testing.state import ClusterState
from aiokafka_lite.testing.topics import Partition, Topic
from aiokafka_lite.testing.watchers import Watchers

__all__ = [
    "Answer",
    "ApiRanges",
    "CloseConnection",
    "Delayed",
    "Farewell",
    "InjectedError",
    "RequestContext",
]

FAREWELL_DELAY: Final = 0.1  # seconds

ApiRanges: TypeAlias = dict[int, tuple[int, int]]
"""First and last offered version, by API key."""

InjectedError: TypeAlias = Callable[[str | None, int | None], int]
"""(topic, partition) -> the error code that a fault injects, 0 for none."""


class CloseConnection(Exception):
    """The broker closes the connection instead of answering, as Kafka does for an invalid
    request. The message gives the reason; the client only sees the connection close."""


class Delayed(ABC):
    """A response that waits for an event (Kafka's purgatory).

    The connection calls `take_if_ready` whenever one of `watched` changes and, after `timeout`,
    `take_now`; until then it answers no other request. It calls `cancel` instead if the
    connection closes first, unless `outlives_connection`.

    Attributes:
        timeout: Maximum wait in seconds; None to wait until `take_if_ready` returns a response.
        watched: The objects whose changes can make it ready.
        ends_connection: True if the connection closes after the response.
        outlives_connection: True if the request completes although the client has disconnected.
            As in Kafka, the broker notices that only when it sends the response. It matters only
            for requests whose completion has an effect.
    """

    timeout: float | None
    watched: Sequence[Watchers]
    ends_connection = False
    outlives_connection = False

    @abstractmethod
    def take_if_ready(self) -> Response | None:
        """Return the response if it is ready, else None."""

    @abstractmethod
    def take_now(self) -> Response:
        """Return the response for the current state, at the timeout."""

    def cancel(self) -> None:  # noqa: B027 (most have nothing to undo)
        """Release the request's resources after the client disconnected."""


class Farewell(Delayed):
    """The last response of a connection, after failed authentication.

    It is delayed to slow down password guessing (`connection.failed.authentication.delay.ms`).

    Args:
        response: The response.
    """

    ends_connection = True
    watched: Sequence[Watchers] = ()
    timeout: float | None = FAREWELL_DELAY

    def __init__(self, response: Response) -> None:
        self._response = response

    def take_if_ready(self) -> Response | None:
        return None

    def take_now(self) -> Response:
        return self._response


Answer: TypeAlias = Response | Delayed | None


def _no_error(topic: str | None, partition: int | None) -> int:
    return 0


class RequestContext:
    """The context of one request: its client, broker and version.

    Attributes:
        state: The cluster's state.
        node_id: The broker that received the request.
        version: Version of the request, and of the response.
        client_id: The client id in the request header.
        session: The session of the connection.
        offered: The API versions that this cluster offers.
    """

    __slots__ = (
        "_injected_error",
        "client_id",
        "node_id",
        "offered",
        "session",
        "state",
        "version",
    )

    def __init__(
        self,
        state: ClusterState,
        node_id: int,
        version: int,
        client_id: str | None,
        session: Session,
        offered: ApiRanges,
        injected_error: InjectedError | None = None,
    ) -> None:
        self.state = state
        self.node_id = node_id
        self.version = version
        self.client_id = client_id
        self.session = session
        self.offered = offered
        self._injected_error = injected_error or _no_error

    def check(self, topic: str | None = None, partition: int | None = None) -> None:
        """Raise the error that a fault injects for a partition, a topic, or the whole request.

        Raises:
            BrokerResponseError: The injected error.
        """
        code = self._injected_error(topic, partition)
        if code:
            raise for_code(code)("error injected by a test")

    @property
    def is_struck(self) -> bool:
        """Return True if a fault may inject errors into parts of the response."""
        return self._injected_error is not _no_error

    def identity(self) -> dict[str, str]:
        """Return the attributes that a subscription to client metrics can match, except the
        instance id."""
        session = self.session
        name, version = session.software
        return {
            "client_id": self.client_id or "",
            "client_software_name": name,
            "client_software_version": version,
            "client_source_address": session.address,
            "client_source_port": str(session.port),
        }

    def topic(self, name: str | None, topic_id: UUID = ZERO_UUID) -> Topic:
        """Return the topic with an id, or without an id the one with a name."""
        return self.state.topic(name, topic_id)

    def led_partition(self, topic: Topic, index: int, leader_epoch: int = -1) -> Partition:
        """Return a partition that this broker leads; raise an injected or a real error."""
        self.check(topic.name, index)
        return self.state.led_partition(self.node_id, topic, index, leader_epoch)

    def check_coordinator(self, kind: CoordinatorType, key: str) -> None:
        """Check that this broker is the coordinator of a key.

        Raises:
            NotCoordinatorForGroupError: It is not.
        """
        self.state.coordinators.check(self.node_id, kind, key)

    def group(self, group_id: str) -> Group | None:
        """Return a group that this broker coordinates, or None if it does not exist.

        Raises:
            InvalidGroupIdError: The group id is empty.
            NotCoordinatorForGroupError: Another broker coordinates it.
        """
        if not group_id:
            raise InvalidGroupIdError("the group id must not be empty")
        self.check_coordinator(CoordinatorType.GROUP, group_id)
        return self.state.groups.get(group_id)

    def allows(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Return True if the client may perform an operation; always without an authorizer."""
        authorizer = self.state.authorizer
        if authorizer is None:
            return True
        session = self.session
        return authorizer.allows(session.principal, session.address, operation, resource, name)

    def allows_any(self, operation: Operation, resource: Resource) -> bool:
        """Return True if it may perform it on at least one resource of the type (KIP-679)."""
        authorizer = self.state.authorizer
        if authorizer is None:
            return True
        session = self.session
        return authorizer.allows_any(session.principal, session.address, operation, resource)

    def authorized_operations(self, resource: Resource, name: str) -> int:
        """Return the allowed operations on a resource, as in `*_authorized_operations` fields.

        Bit `n` is set for the operation code `n`; without an authorizer, for every operation of the
        type.
        """
        authorizer = self.state.authorizer
        if authorizer is None:
            return sum(1 << operation for operation in operations_of(resource))
        session = self.session
        return authorizer.allowed_operations(session.principal, session.address, resource, name)

    def authorize(self, operation: Operation, resource: Resource, name: str) -> None:
        """Raise the error for an operation that the client may not perform.

        Raises:
            TopicAuthorizationFailedError, GroupAuthorizationFailedError,
            TransactionalIdAuthorizationFailed, ClusterAuthorizationFailedError
        """
        if not self.allows(operation, resource, name):
            raise refusal(operation, resource, name)
