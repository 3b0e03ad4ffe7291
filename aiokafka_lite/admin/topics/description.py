"""Lists and describes topics.

Source: MetadataRequest.json v0-v13, DescribeTopicPartitionsRequest.json v0, KIP-516, KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID

from aiokafka_lite._arguments import topic_name
from aiokafka_lite.admin.core.authorized_operations import AclOperation, authorized_operations
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.admin.core.metadata_requests import FoundTopic, TopicMetadata
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.cluster.large_metadata import Slices
from aiokafka_lite.cluster.retry import ANY
from aiokafka_lite.errors import KafkaError, KafkaProtocolError, UnsupportedVersionError
from aiokafka_lite.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from aiokafka_lite.protocol.messages.metadata import (
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID

__all__ = [
    "PartitionDescription",
    "TopicDescription",
    "TopicListing",
    "describe_topics",
    "list_topics",
    "names_of_topics",
    "topics_as_objects",
]

P = TypeVar("P")

_IDS_FROM: Final = 12
"""The version of Metadata in which brokers answer for topic ids (KIP-516)."""
_OPERATIONS_FROM: Final = 8
"""The version of Metadata that returns the authorized operations of topics (KIP-430)."""
_PAGE: Final = 500
"""Partitions in a response of DescribeTopicPartitions, which take 4 ms to decode. Java has 2000."""


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic of the cluster.

    Attributes:
        topic_id: None from brokers before 2.8.
        is_internal: True for topics of Kafka's own, such as `__consumer_offsets`.
    """

    name: str
    topic_id: UUID | None
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition of a topic.

    Attributes:
        leader: Node id; None if there is no leader now.
        leader_epoch: None from brokers before 2.1.
        replicas: Node ids, the preferred leader first.
        isr: Node ids of the replicas that are in sync.
        offline_replicas: Node ids of the replicas that are down.
        eligible_leader_replicas: Replicas that may lead without losing records, although they are
            not in sync (KIP-966); None from brokers before 3.7.
        last_known_elr: The eligible replicas before an unclean shutdown; None likewise.
        error: What the broker reports for the partition, or None.
    """

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic and its partitions.

    Attributes:
        topic_id: None from brokers before 2.8.
        partitions: By partition number, in order.
        authorized_operations: What the client may do with the topic; None if not requested.
    """

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: Mapping[int, PartitionDescription] = field(repr=False)
    authorized_operations: frozenset[AclOperation] | None = None


async def list_topics(
    dispatcher: Dispatcher, timeout_ms: float | None, *, list_internal: bool
) -> dict[str, TopicListing]:
    """See `AIOKafkaAdminClient.list_topics`."""
    deadline = dispatcher.deadline(timeout_ms)
    listed: dict[str, TopicListing] = {}
    slices = Slices()
    for topic, _ in await _metadata(dispatcher, deadline, None, lambda partition: None):
        if topic.name is not None and (list_internal or not topic.is_internal):
            listed[topic.name] = TopicListing(topic.name, _id(topic.topic_id), topic.is_internal)
        if slices.over():
            await slices.pause()
    return listed


async def topics_as_objects(
    dispatcher: Dispatcher, topics: Iterable[str] | None, timeout_ms: float | None
) -> list[dict[str, Any]]:
    """Return topics as aiokafka's `describe_topics` does; see there."""
    deadline = dispatcher.deadline(timeout_ms)
    names = None if topics is None else list(dict.fromkeys(names_of_topics(topics)))
    found = await _metadata(dispatcher, deadline, names, _as_object)
    if names is not None:
        order = {name: index for index, name in enumerate(names)}
        found.sort(key=lambda each: order.get(each[0].name or "", len(order)))
    return [
        {
            "error_code": topic.error_code,
            "topic": topic.name,
            "is_internal": topic.is_internal,
            "partitions": partitions,
        }
        for topic, partitions in found
    ]


def _as_object(partition: MetadataResponsePartition) -> dict[str, Any]:
    return {
        "error_code": partition.error_code,
        "partition": partition.partition_index,
        "leader": partition.leader_id,
        "replicas": partition.replica_nodes,
        "isr": partition.isr_nodes,
        "offline_replicas": partition.offline_replicas,
    }


async def describe_topics(
    dispatcher: Dispatcher,
    topics: Iterable[str | UUID] | None,
    timeout_ms: float | None,
    *,
    include_authorized_operations: bool,
) -> Results[str | UUID, TopicDescription]:
    """See `AIOKafkaAdminClient.describe_topics`."""
    deadline = dispatcher.deadline(timeout_ms)
    if topics is None:
        listed = await _metadata(dispatcher, deadline, None, lambda partition: None)
        wanted: list[str | UUID] = [each.name for each, _ in listed if each.name is not None]
    elif isinstance(topics, str) or not isinstance(topics, Iterable):
        raise TypeError(f"`topics` should be a collection of names or ids, not {topics!r}")
    else:
        wanted = [each if isinstance(each, UUID) else topic_name(each) for each in topics]
    outcomes: Outcomes[str | UUID, TopicDescription] = Outcomes(
        wanted, lambda topic: f"topic {str(topic)!r}", retriable=lambda error: False
    )
    ids = [each for each in outcomes.pending if isinstance(each, UUID)]
    names = sorted(each for each in outcomes.pending if isinstance(each, str))
    operations = include_authorized_operations
    try:
        for start in range(0, len(names), _PAGE):
            part = names[start : start + _PAGE]  # a page has at least one partition of each
            if not await _describe_by_pages(dispatcher, part, outcomes, deadline, operations):
                await _describe_by_metadata(
                    dispatcher, names[start:], outcomes, deadline, operations
                )
                break
        if ids:
            await _describe_by_metadata(dispatcher, ids, outcomes, deadline, operations)
    except KafkaError as error:
        outcomes.fail_pending(error)
    return outcomes.results()


async def _describe_by_pages(
    dispatcher: Dispatcher,
    names: list[str],
    outcomes: Outcomes[Any, TopicDescription],
    deadline: float,
    include_authorized_operations: bool,
) -> bool:
    """By DescribeTopicPartitions (Kafka 3.8), which returns the topics in order, in pages.

    Returns:
        False if the broker is too old.
    """
    remaining = names
    cursor: Cursor | None = None
    unfinished: dict[str, dict[int, PartitionDescription]] = {}
    while remaining:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name) for name in remaining],
            response_partition_limit=_PAGE,
            cursor=cursor,
        )
        try:
            page: DescribeTopicPartitionsResponse = await dispatcher.ask(request, ANY, deadline)
        except UnsupportedVersionError:
            return False
        following = page.next_cursor
        if following is not None and not _advances(cursor, following, remaining):
            raise KafkaProtocolError(
                f"The broker's next page of topics begins at {following.topic_name!r} "
                f"{following.partition_index}, which is not after the previous page"
            )
        for topic in page.topics:
            if topic.name is None or outcomes.on_code(topic.name, topic.error_code):
                continue
            partitions = unfinished.setdefault(topic.name, {})
            partitions.update((each.partition_index, _paged(each)) for each in topic.partitions)
            if following is None or topic.name != following.topic_name:
                described = _topic(topic, partitions, include_authorized_operations)
                outcomes.on_value(topic.name, described)
                del unfinished[topic.name]
        cursor = following
        remaining = (
            [] if cursor is None else [name for name in remaining if name >= cursor.topic_name]
        )
    outcomes.end(outcomes.begin(names))
    return True


def _advances(before: Cursor | None, after: Cursor, names: list[str]) -> bool:
    """True if the next page comes after this one, so that paging ends."""
    if after.topic_name not in names or after.partition_index < 0:
        return False
    if before is None:
        return True
    return (after.topic_name, after.partition_index) > (before.topic_name, before.partition_index)


async def _describe_by_metadata(
    dispatcher: Dispatcher,
    topics: list[Any],
    outcomes: Outcomes[Any, TopicDescription],
    deadline: float,
    include_authorized_operations: bool,
) -> None:
    asked = outcomes.begin(topics)
    by_id = isinstance(asked[0], UUID)
    found = await _metadata(
        dispatcher,
        deadline,
        asked,
        _of_metadata,
        oldest=_IDS_FROM if by_id else 0,
        feature="Describing topics by id" if by_id else None,
        include_authorized_operations=include_authorized_operations,
    )
    slices = Slices()
    for topic, described in found:
        item = topic.topic_id if by_id else topic.name
        if not outcomes.on_code(item, topic.error_code):
            partitions = {each.partition: each for each in described}
            outcomes.on_value(item, _topic(topic, partitions, include_authorized_operations))
        if slices.over():
            await slices.pause()
    outcomes.end(asked)


async def _metadata(
    dispatcher: Dispatcher,
    deadline: float,
    topics: list[str] | list[UUID] | None,
    convert: Callable[[MetadataResponsePartition], P],
    *,
    oldest: int = 0,
    feature: str | None = None,
    include_authorized_operations: bool = False,
) -> list[FoundTopic[P]]:
    """Metadata of some topics, or of all (None)."""
    if include_authorized_operations and oldest < _OPERATIONS_FROM:
        oldest, feature = _OPERATIONS_FROM, "Describing the authorized operations of topics"
    return await TopicMetadata(convert).request(
        lambda request: dispatcher.ask(request, ANY, deadline, oldest=oldest, feature=feature),
        topics,
        include_authorized_operations=include_authorized_operations,
    )


def names_of_topics(topics: object) -> list[str]:
    """Check an argument that is several topic names.

    Raises:
        TypeError: It is one string, or not an iterable of strings.
        ValueError: A name is not a valid topic name.
    """
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise TypeError(f"`topics` should be a collection of names, not {topics!r}")
    return [topic_name(each) for each in topics]


def _id(topic_id: UUID) -> UUID | None:
    return None if topic_id == ZERO_UUID else topic_id


def _topic(
    answer: MetadataResponseTopic | DescribeTopicPartitionsResponseTopic,
    partitions: dict[int, PartitionDescription],
    include_authorized_operations: bool,
) -> TopicDescription:
    operations = None
    if include_authorized_operations:  # DescribeTopicPartitions always returns them
        operations = authorized_operations(answer.topic_authorized_operations)
    ordered = {number: partitions[number] for number in sorted(partitions)}
    return TopicDescription(
        answer.name or "", _id(answer.topic_id), answer.is_internal, ordered, operations
    )


def _of_metadata(answer: MetadataResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        answer.partition_index,
        None if answer.leader_id < 0 else answer.leader_id,
        None if answer.leader_epoch < 0 else answer.leader_epoch,
        tuple(answer.replica_nodes),
        tuple(answer.isr_nodes),
        tuple(answer.offline_replicas),
        error=_error(answer.error_code, answer.partition_index),
    )


def _paged(answer: DescribeTopicPartitionsResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        answer.partition_index,
        None if answer.leader_id < 0 else answer.leader_id,
        None if answer.leader_epoch < 0 else answer.leader_epoch,
        tuple(answer.replica_nodes),
        tuple(answer.isr_nodes),
        tuple(answer.offline_replicas),
        None if answer.eligible_leader_replicas is None else tuple(answer.eligible_leader_replicas),
        None if answer.last_known_elr is None else tuple(answer.last_known_elr),
        _error(answer.error_code, answer.partition_index),
    )


def _error(code: int, partition: int) -> KafkaError | None:
    return item_error(code, f"partition {partition}") if code else None
