"""`describe`: the code that describing groups of all types has in common.

A group of one type is unknown to the requests about the other types. A call can have two questions:
groups that a coordinator does not find with the first one are requested with the second one, part
by part, while the requests for the other parts continue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from aiokafka_lite._arguments import flag
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.exchange import Exchange
from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.groups.group_calls import group_label, names_of, of_coordinator
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import GroupIdNotFound, KafkaError, UnsupportedVersionError
from aiokafka_lite.protocol.message import Request, RequestOf, Response, ResponseT

__all__ = ["Question", "describe", "describe_all"]

DEAD: Final = "Dead"

_UNKNOWN: Final = (GroupIdNotFound.errno, UnsupportedVersionError.errno)
"""The codes of a group that is not of the requested type. The second one means that the cluster
does not enable the protocol of this type, although its brokers offer the API."""


class _Group(Protocol):
    """A group in a response."""

    group_id: str
    group_state: str
    error_code: int
    error_message: str | None


G = TypeVar("G", bound=_Group)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Question(Generic[ResponseT, G, V]):
    """How groups of one type are described.

    Attributes:
        request_class: The class of the request.
        build: Builds a request about group ids, with their authorized operations or without.
        groups: Returns the groups of a response.
        convert: Returns the description of a group by the coordinator with this node id. Raises
            the KafkaError that the group gets in place of a description.
        oldest: Oldest version that can express the question.
        operations_from: The version that returns authorized operations (KIP-430).
        feature: The feature that needs the API or the oldest version, for the error of an older
        broker.
        dead_if_unknown: True if brokers (before 4.1) describe a group that they do not have as
            dead, without an error.
    """

    request_class: type[Request]
    build: Callable[[list[str], bool], RequestOf[ResponseT]]
    groups: Callable[[ResponseT], Iterable[G]]
    convert: Callable[[G, int], V]
    oldest: int = 0
    operations_from: int = 0
    feature: str | None = None
    dead_if_unknown: bool = False

    def exchange(
        self, node_id: int, wanted: bool, on_unknown: Callable[[str], None] | None
    ) -> Exchange[str, V, ResponseT]:
        """Return the exchange with a coordinator.

        Args:
            wanted: True to request authorized operations.
            on_unknown: Called with the id of each group that the coordinator does not have; None:
                these groups fail.
        """

        def read(response: ResponseT, outcomes: Outcomes[str, V]) -> None:
            for group in self.groups(response):
                group_id = group.group_id
                if on_unknown is not None and self._is_unknown(group):
                    outcomes.on_unknown(group_id)
                    on_unknown(group_id)
                elif not outcomes.on_code(group_id, group.error_code, group.error_message):
                    try:
                        outcomes.on_value(group_id, self.convert(group, node_id))
                    except KafkaError as error:
                        outcomes.on_error(group_id, error)

        limited = wanted and self.operations_from > 0
        return Exchange(
            self.request_class,
            lambda version, group_ids: self.build(group_ids, wanted),
            read,
            oldest=max(self.oldest, self.operations_from if limited else 0),
            feature="Describing the authorized operations of a group" if limited else self.feature,
        )

    def _is_unknown(self, group: G) -> bool:
        return group.error_code in _UNKNOWN or (self.dead_if_unknown and group.group_state == DEAD)


async def describe(
    dispatcher: Dispatcher,
    group_ids: object,
    question: Question[ResponseT, G, V],
    timeout_ms: float | None,
    include_authorized_operations: object,
) -> Results[str, V]:
    """Describe groups of one type, for a public method with these arguments."""
    deadline = dispatcher.deadline(timeout_ms)
    asked = names_of("group_ids", group_ids)
    wanted = flag("include_authorized_operations", include_authorized_operations)
    return await describe_all(dispatcher, asked, [question], deadline, wanted)


async def describe_all(
    dispatcher: Dispatcher,
    group_ids: Collection[str],
    questions: list[Question[Any, Any, V]],
    deadline: float,
    wanted: bool,
    *,
    likely_second: Collection[str] = (),
) -> Results[str, V]:
    """Describe groups by the first question, and those that it does not find by the second one.

    Args:
        questions: One or two.
        wanted: True to request authorized operations.
        likely_second: Groups for which the second question comes first. If it does not find a
            group, the group is like any other.

    Raises:
        KafkaError: No coordinator answered about any group: the reason.
    """
    first, last = questions[0], questions[-1]
    likely = set(likely_second)
    outcomes: Outcomes[str, V] = Outcomes(group_ids, group_label, retriable=of_coordinator)

    async def send(node_id: int, asked: list[str]) -> None:
        others = [group_id for group_id in asked if group_id in likely]
        await ask(node_id, others, last, likely.discard)
        asked = [group_id for group_id in asked if group_id not in likely]
        if first is not last:
            unknown: set[str] = set()
            try:
                await ask(node_id, asked, first, unknown.add)
                asked = [group_id for group_id in asked if group_id in unknown]
            except UnsupportedVersionError:
                pass  # an older broker has groups of the second type only
        await ask(node_id, asked, last, None)

    async def ask(
        node_id: int,
        asked: list[str],
        question: Question[Response, _Group, V],
        on_unknown: Callable[[str], None] | None,
    ) -> None:
        if asked:
            exchange = question.exchange(node_id, wanted, on_unknown)
            await dispatcher.send_once(node_id, asked, outcomes, exchange)

    return await dispatcher.scatter_to_coordinators(
        CoordinatorKind.GROUP, outcomes, first.request_class, send, deadline
    )
