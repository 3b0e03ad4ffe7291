"""The retry loop of requests, and the routes they can take.

`call` finds the broker of a route, sends the request, checks the response for an error, and retries
after a backoff until the deadline while the error is retriable. The error classes alone define
which errors are retriable and which mean that the metadata is stale.

`Attempts` is the same without the loop, for callers that decide between the attempts: they connect,
send, and report what failed.

A route finds the broker of a request, and drops outdated data when an error shows that the broker
was wrong:

- `ANY`: any broker, the least loaded one;
- `ToNode`: one specific broker;
- `CONTROLLER`: the broker that handles administrative changes;
- `LeaderOf`: the leader of a partition;
- `CoordinatorOf`: the coordinator of a group, a transactional id or a share-group partition, looked
  up with FindCoordinator and cached by the cluster.

A retried request may be carried out twice if a response was lost (`error.ambiguous`). Use this loop
only for requests that may be repeated; the sender has its own loop for Produce.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from aiokafka_lite.cluster.broker import Broker, PerVersion, Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.metadata import NO_CONTROLLER, Node
from aiokafka_lite.cluster.refresh.refresh_task import PATIENCE
from aiokafka_lite.errors import (
    AuthenticationFailedError,
    GroupCoordinatorNotAvailableError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    NotControllerError,
    NotCoordinatorForGroupError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.protocol.message import RequestOf, ResponseT
from aiokafka_lite.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

log = logging.getLogger(__name__)


class Route(Protocol):
    """Where a request goes. Holds no per-call state, so it can be shared."""

    async def find(self, cluster: Cluster, newer_than: int, deadline: float) -> Broker:
        """The broker to send the next attempt to.

        Args:
            newer_than: A metadata version known to be stale, or -1.

        Raises:
            KafkaError: No broker is known; retriable if one may become known.
        """
        ...

    def is_stale(self, cluster: Cluster, error: KafkaError) -> bool:
        """True if an error means that the metadata is stale; also drops a wrong coordinator."""
        ...


class _Any:
    """Any broker, the least loaded one."""

    async def find(self, cluster: Cluster, newer_than: int, deadline: float) -> Broker:
        return cluster.any_broker()

    def is_stale(self, cluster: Cluster, error: KafkaError) -> bool:
        return error.invalid_metadata


class _Controller:
    """The controller, or any broker if the metadata does not name one (Metadata v0)."""

    async def find(self, cluster: Cluster, newer_than: int, deadline: float) -> Broker:
        metadata = await cluster.wait_for_version(newer_than, deadline)
        if metadata.controller_id == NO_CONTROLLER:
            return cluster.any_broker()
        return cluster.broker(metadata.controller_id)

    def is_stale(self, cluster: Cluster, error: KafkaError) -> bool:
        return error.invalid_metadata or isinstance(error, NotControllerError | NodeNotReadyError)


ANY: Route = _Any()
CONTROLLER: Route = _Controller()


class ToNode(NamedTuple):
    """One broker, by its node id."""

    node_id: int

    async def find(self, cluster: Cluster, newer_than: int, deadline: float) -> Broker:
        await cluster.wait_for_version(newer_than, deadline)
        return cluster.broker(self.node_id)

    def is_stale(self, cluster: Cluster, error: KafkaError) -> bool:
        return error.invalid_metadata or isinstance(error, NodeNotReadyError)


class LeaderOf(NamedTuple):
    """The leader of a partition."""

    topic: str
    partition: int

    async def find(self, cluster: Cluster, newer_than: int, deadline: float) -> Broker:
        await cluster.wait_for_version(newer_than, deadline)
        partitions = await cluster.partitions_of(self.topic, deadline)
        if self.partition not in partitions:
            # The broker may not have the new partitions yet.
            raise UnknownTopicOrPartitionError(
                f"{self.topic}-{self.partition} is unknown: the topic has {len(partitions)} "
                "partitions"
            )
        leader = cluster.metadata.leader(self.topic, self.partition)
        if leader is None:
            raise LeaderNotAvailableError(f"{self.topic}-{self.partition} has no leader")
        return cluster.broker(leader.node_id)

    def is_stale(self, cluster: Cluster, error: KafkaError) -> bool:
        return error.invalid_metadata or isinstance(error, NodeNotReadyError)


class CoordinatorOf(NamedTuple):
    """The coordinator of a group id, a transactional id or a share-group partition.

    Attributes:
        key: The group id or transactional id; for SHARE, "groupId:topicId:partition".
    """

    key: str
    kind: CoordinatorKind = CoordinatorKind.GROUP

    async def find(self, cluster: Cluster, newer_than: int, deadline: float) -> Broker:
        async def look_up() -> int:
            node = await find_coordinator(cluster, self.key, self.kind, deadline)
            cluster.learn_node(node)
            return node.node_id

        node_id = await cluster.coordinators.find(self.kind, self.key, look_up, deadline)
        return cluster.broker(node_id)

    def is_stale(self, cluster: Cluster, error: KafkaError) -> bool:
        # A broker that rejects this client may no longer be the coordinator.
        moved = (
            AuthenticationFailedError
            | GroupCoordinatorNotAvailableError
            | NotCoordinatorForGroupError
            | KafkaConnectionError
            | NodeNotReadyError
        )
        if isinstance(error, moved):
            cluster.coordinators.forget(self.kind, self.key)
        return error.invalid_metadata


async def find_coordinator(
    cluster: Cluster, key: str, kind: CoordinatorKind, deadline: float
) -> Node:
    """Look up the coordinator of a key, without caching it.

    Raises:
        GroupAuthorizationFailedError, TransactionalIdAuthorizationFailed: Raised at once.
        UnsupportedVersionError: Brokers before 0.11 do not support transactions, those before 4.1
            do not support share groups.
        KafkaTimeoutError: The coordinator was not found by the deadline.

    Source: FindCoordinatorRequest.json v0-v6, KIP-699, KIP-932.
    """

    def build(version: int) -> FindCoordinatorRequest:
        if version >= 4:
            return FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        return FindCoordinatorRequest(key=key, key_type=kind)

    found: list[Node] = []

    def check(response: FindCoordinatorResponse) -> None:
        answer = response.coordinators[0] if response.coordinators else response
        if answer.error_code:
            what = answer.error_message or f"cannot look up the coordinator of {key!r}"
            raise for_code(answer.error_code)(what)
        try:
            found.append(Node.from_broker(answer.node_id, answer.host, answer.port))
        except KafkaProtocolError as error:  # retriable: another broker may answer correctly
            raise GroupCoordinatorNotAvailableError(str(error.args[0])) from error

    await call(
        cluster,
        PerVersion(FindCoordinatorRequest, build),
        ANY,
        deadline,
        check=check,
        patience=PATIENCE,
        oldest={CoordinatorKind.TRANSACTION: 1, CoordinatorKind.SHARE: 6}.get(kind, 0),
    )
    return found[0]


def raise_error_code(response: object) -> None:
    """Raise the error of a response's top-level error code, if it has one."""
    code: int = getattr(response, "error_code", 0)
    if code:
        raise for_code(code)(getattr(response, "error_message", None) or type(response).__name__)


async def call(
    cluster: Cluster,
    request: RequestOf[ResponseT] | PerVersion[ResponseT],
    route: Route,
    deadline: float,
    *,
    check: Callable[[ResponseT], None] = raise_error_code,
    purpose: Purpose = Purpose.GENERAL,
    latest: int | None = None,
    oldest: int = 0,
    timeout: float | None = None,
    patience: float | None = None,
) -> ResponseT:
    """Send a request and retry until it succeeds, fails with a lasting error, or times out.

    Args:
        request: The request, or how to build it for a version.
        route: Where to send it; the broker is looked up for each attempt.
        deadline: Loop time after which no attempt starts or continues.
        check: Raises the KafkaError of a response; by default that of the top-level code. If it is
            retriable, the whole request is retried.
        purpose: Which of the broker's connections to use.
        latest, oldest: Bounds of the version, as in `Broker.request`.
        timeout: Seconds for one attempt, as in `Broker.request`.
        patience: Seconds until the next broker is tried after an unresponsive one, including the
            time to connect; for requests that any broker can answer. It doubles each time, because
            all brokers may be slow.

    Raises:
        KafkaTimeoutError: The deadline passed; its cause is the last error, if there was one.
        KafkaError: The error is not retriable.
        IllegalStateError: The cluster is closed.

    Cancellation: stops the wait; a sent request may still be carried out.
    """
    attempts = Attempts(cluster, route, deadline, _name(request))
    try:
        async with asyncio.timeout_at(deadline):
            while True:
                try:
                    async with asyncio.timeout(patience):
                        broker = await attempts.find()
                        response = await broker.request(
                            request, purpose, latest=latest, oldest=oldest, timeout=timeout
                        )
                    check(response)
                    return response
                except TimeoutError:
                    attempts.fail(KafkaTimeoutError(f"no answer within {patience:g} s"))
                    patience = None if patience is None else 2 * patience
                except KafkaError as error:
                    attempts.fail(error)
                await attempts.pause()
    except TimeoutError:
        raise attempts.timed_out() from attempts.last_error


class Attempts:
    """The attempts of one request: where the next one goes, the pause before it, the deadline.

    Args:
        cluster: The cluster.
        route: Where the request goes.
        deadline: Loop time after which no attempt starts or continues.
        name: The request's name, for errors and logs.

    Attributes:
        last_error: The error of the last failed attempt.
    """

    def __init__(self, cluster: Cluster, route: Route, deadline: float, name: str) -> None:
        self.last_error: KafkaError | None = None
        self._cluster = cluster
        self._route = route
        self._deadline = deadline
        self._name = name
        self._failures = 0
        self._newer_than = -1  # the metadata version that an error showed to be stale
        self._pause_due = False

    async def connect(self, purpose: Purpose) -> Connection:
        """Connect to the broker of the next attempt; after a failure, pause first.

        Raises:
            KafkaTimeoutError: The deadline passed; its cause is the last error, if there was one.
            KafkaError: The error is not retriable.

        Cancellation: safe.
        """
        try:
            async with asyncio.timeout_at(self._deadline):
                while True:
                    await self.pause()
                    try:
                        return await (await self.find()).connection(purpose)
                    except KafkaError as error:
                        self.fail(error)
        except TimeoutError:
            raise self.timed_out() from self.last_error

    async def response(self, answer: Awaitable[ResponseT]) -> ResponseT | None:
        """Await the response to a request that was sent; None if the attempt failed.

        Raises:
            KafkaTimeoutError: The deadline passed; its cause is the last error, if there was one.
            KafkaError: The error is not retriable.

        Cancellation: drops the response, not the request.
        """
        try:
            async with asyncio.timeout_at(self._deadline):
                return await answer
        except TimeoutError:
            raise self.timed_out() from self.last_error
        except KafkaError as error:
            self.fail(error)
            return None

    def fail(self, error: KafkaError) -> None:
        """An attempt failed; a pause is due before the next one.

        Raises:
            KafkaError: The error, if it is not retriable.
            IllegalStateError: The cluster is closed.
        """
        self._cluster.check_open()
        stale = self._route.is_stale(self._cluster, error)
        if not error.retriable:
            raise error
        self.last_error = error
        self._failures += 1
        self._pause_due = True
        if stale:
            self._newer_than = self._cluster.request_update()

    async def find(self) -> Broker:
        """The broker of the next attempt.

        Raises:
            KafkaError: No broker is known; retriable if one may become known.
        """
        return await self._route.find(self._cluster, self._newer_than, self._deadline)

    async def pause(self) -> None:
        """Wait for the backoff after a failure, if one is due."""
        if self._pause_due:
            self._pause_due = False
            pause = self._cluster.retry_backoff.delay(self._failures)
            client_id, error = self._cluster.client_id, self.last_error
            log.debug("%s: retrying %s in %.3f s: %s", client_id, self._name, pause, error)
            await asyncio.sleep(pause)

    def timed_out(self) -> KafkaTimeoutError:
        """The error for a deadline that passed."""
        why = f": {self.last_error}" if self.last_error else ""
        return KafkaTimeoutError(f"{self._name} timed out{why}")


def _name(request: RequestOf[ResponseT] | PerVersion[ResponseT]) -> str:
    return request.request_class.name if isinstance(request, PerVersion) else request.name
