"""Lists the groups of the cluster: each broker lists those that it coordinates.

Source: ListGroupsRequest.json v0-v5, KIP-518, KIP-848.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

from aiokafka_lite._arguments import INT32, whole, wire_string
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.large_metadata import LOOK_EVERY, Slices
from aiokafka_lite.cluster.retry import raise_error_code
from aiokafka_lite.errors import KafkaError, KafkaProtocolError
from aiokafka_lite.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from aiokafka_lite.protocol.primitives import Reader

__all__ = [
    "ConsumerGroupListing",
    "GroupListing",
    "GroupListings",
    "list_consumer_groups",
    "list_groups",
]

_THROTTLES_FROM = 1
"""The version of ListGroups that reports a throttle."""
_STATES_FROM = 4
"""The version of ListGroups that filters by state (KIP-518)."""
_TYPES_FROM = 5
"""The version of ListGroups that filters by type (KIP-848)."""


class ConsumerGroupListing(NamedTuple):
    """aiokafka's entry of `list_consumer_groups`."""

    group_id: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group of the cluster.

    Attributes:
        protocol_type: "consumer", "connect" or another protocol's name; "" for a group that only
            commits offsets.
        state: "Stable", "Empty", "PreparingRebalance", ...; None from brokers before 2.6.
        type: "classic", "consumer", "share" or "streams"; None from brokers before 3.8.
    """

    group_id: str
    protocol_type: str
    state: str | None
    type: str | None


class GroupListings:
    """The groups that the brokers listed, and the errors of the brokers that did not.

    Attributes:
        by_broker: The groups of each coordinator, or its error, by node id.
    """

    __slots__ = ("by_broker",)

    def __init__(self, by_broker: Results[int, list[GroupListing]]) -> None:
        self.by_broker = by_broker

    def valid(self) -> list[GroupListing]:
        """Return the groups of every broker that listed its groups."""
        found = {
            group.group_id: group for groups in self.by_broker.valid().values() for group in groups
        }
        return list(found.values())

    def errors(self) -> dict[int, KafkaError]:
        """Return the error of each broker that did not list its groups, by node id."""
        return self.by_broker.errors()

    def raise_for_errors(self) -> list[GroupListing]:
        """Return the groups, if every broker listed its groups.

        Raises:
            KafkaError: The error of the first broker that did not.
        """
        self.by_broker.raise_for_errors()
        return self.valid()

    def __repr__(self) -> str:
        return f"GroupListings({self.by_broker!r})"


async def list_groups(
    dispatcher: Dispatcher,
    timeout_ms: float | None,
    *,
    states: Collection[str] = (),
    types: Collection[str] = (),
    protocol_types: Collection[str] = (),
    broker_ids: Iterable[int] | None = None,
) -> GroupListings:
    """See `AIOKafkaAdminClient.list_groups`."""
    deadline = dispatcher.deadline(timeout_ms)
    wanted_protocols = _names("protocol_types", protocol_types)
    request = ListGroupsRequest(
        states_filter=_names("states", states), types_filter=_names("types", types)
    )
    if broker_ids is not None:
        broker_ids = [whole("broker id", each, most=INT32) for each in broker_ids]
    oldest = _TYPES_FROM if types else _STATES_FROM if states else 0

    def read(answer: _Answer) -> _Answer:
        raise_error_code(answer)
        return answer

    answers = await dispatcher.every_broker(
        PerVersion(ListGroupsRequest, lambda version: _Question(request)),
        read,
        deadline,
        node_ids=broker_ids,
        oldest=oldest,
        feature="Listing groups by type" if types else "Listing groups by state",
    )
    listed: dict[int, list[GroupListing] | KafkaError] = {**answers.errors()}
    for node_id, answer in answers.valid().items():
        try:
            listed[node_id] = await _read_on(answer, wanted_protocols)
        except KafkaProtocolError as error:
            listed[node_id] = error
    return GroupListings(Results({node_id: listed[node_id] for node_id in answers}))


class _Answer(ListGroupsResponse):
    """A response whose groups are not decoded; `unread` holds them."""

    __slots__ = ("unread", "version")

    unread: Reader
    version: int

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms = reader.int32() if version >= _THROTTLES_FROM else 0
        self = cls(throttle_time_ms, reader.int16())
        self.version = version
        self.unread = Reader(reader.raw(reader.remaining))
        return self


class _Question:
    """A ListGroupsRequest that returns an `_Answer`; a `RequestOf`."""

    api_key: ClassVar[int] = ListGroupsRequest.api_key
    name: ClassVar[str] = ListGroupsRequest.name
    min_version: ClassVar[int] = ListGroupsRequest.min_version
    max_version: ClassVar[int] = ListGroupsRequest.max_version
    flexible_from: ClassVar[int] = ListGroupsRequest.flexible_from
    response: ClassVar[type[_Answer]] = _Answer

    def __init__(self, request: ListGroupsRequest) -> None:
        self.encode = request.encode


async def _read_on(answer: _Answer, protocol_types: Collection[str]) -> list[GroupListing]:
    """Return the groups of these protocol types (none: all). Reads them in slices, because 10,000
    groups take 20 ms.

    Raises:
        KafkaProtocolError: The bytes are not a ListGroupsResponse.

    Cancellation: leaves the response partly read; no other caller uses it.
    """
    reader, version = answer.unread, answer.version
    flexible = version >= ListGroupsResponse.flexible_from
    found: list[GroupListing] = []
    slices = Slices()
    for number in range(reader.array_length(flexible)):
        each = ListedGroup.decode(reader, version)
        if not protocol_types or each.protocol_type in protocol_types:
            found.append(
                GroupListing(
                    each.group_id,
                    each.protocol_type,
                    each.group_state or None,
                    each.group_type or None,
                )
            )
        if number % LOOK_EVERY == 0 and slices.over():
            await slices.pause()
    if flexible:
        reader.tagged_fields()
    reader.expect_end()
    return found


async def list_consumer_groups(
    dispatcher: Dispatcher, broker_ids: Iterable[int] | None, timeout_ms: float | None
) -> list[ConsumerGroupListing]:
    """See `AIOKafkaAdminClient.list_consumer_groups`."""
    listings = await list_groups(dispatcher, timeout_ms, broker_ids=broker_ids)
    return [
        ConsumerGroupListing(each.group_id, each.protocol_type)
        for each in listings.raise_for_errors()
    ]


def _names(name: str, given: object) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Collection):
        raise TypeError(f"`{name}` should be a collection of names, not {given!r}")
    return [wire_string(name, each) for each in given]
