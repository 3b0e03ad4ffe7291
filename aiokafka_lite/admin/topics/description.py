"""Lists and describes topics, and waits until every broker knows them.

Source: MetadataRequest.json v0-v13, DescribeTopicPartitionsRequest.json v0, KIP-516, KIP-966.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from aiokafka_lite._arguments import INT32, topic_name, whole
from aiokafka_lite.admin.core.authorized_operations import AclOperation, authorized_operations
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.metadata import NO_LEADER, metadata_request
from aiokafka_lite.cluster.retry import ANY, ToNode
from aiokafka_lite.errors import (
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from aiokafka_lite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
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
    "topics_as_objects",
    "wait_for_topics",
]

_IDS_FROM: Final = 12
"""The version of Metadata in which brokers answer for topic ids (KIP-516)."""
_OPERATIONS_FROM: Final = 8
"""The version of Metadata that returns the authorized operations of topics (KIP-430)."""
_NO_CREATION_FROM: Final = 4
"""The version of Metadata that can name a topic without creating it."""
_PAGE: Final = 2000
"""Partitions in a response of DescribeTopicPartitions, as in Java."""


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
        last_known_elr: Those that were before an unclean shutdown; None likewise.
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
    response = await _metadata(dispatcher, dispatcher.deadline(timeout_ms), None)
    return {
        topic.name: TopicListing(topic.name, _id(topic.topic_id), topic.is_internal)
        for topic in response.topics
        if topic.name is not None and (list_internal or not topic.is_internal)
    }


async def topics_as_objects(
    dispatcher: Dispatcher, topics: Iterable[str] | None, timeout_ms: float | None
) -> list[dict[str, Any]]:
    """Return topics as aiokafka's `describe_topics` does; see there."""
    deadline = dispatcher.deadline(timeout_ms)
    names = None if topics is None else _names(topics)
    if names is not None and not names:
        return []
    response = await _metadata(dispatcher, deadline, names)
    if names is not None:
        order = {name: index for index, name in enumerate(names)}
        response.topics.sort(key=lambda topic: order.get(topic.name or "", len(order)))
    return [
        {
            "error_code": topic.error_code,
            "topic": topic.name,
            "is_internal": topic.is_internal,
            "partitions": [
                {
                    "error_code": each.error_code,
                    "partition": each.partition_index,
                    "leader": each.leader_id,
                    "replicas": each.replica_nodes,
                    "isr": each.isr_nodes,
                    "offline_replicas": each.offline_replicas,
                }
                for each in topic.partitions
            ],
        }
        for topic in response.topics
    ]


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
        listed = await _metadata(dispatcher, deadline, None)
        wanted: list[str | UUID] = [each.name for each in listed.topics if each.name is not None]
    elif isinstance(topics, str) or not isinstance(topics, Iterable):
        raise TypeError(f"`topics` should be several names or ids, not {topics!r}")
    else:
        wanted = [each if isinstance(each, UUID) else topic_name(each) for each in topics]
    outcomes: Outcomes[str | UUID, TopicDescription] = Outcomes(
        wanted, lambda topic: f"topic {str(topic)!r}", retriable=lambda error: False
    )
    ids = [each for each in outcomes.pending if isinstance(each, UUID)]
    names = [each for each in outcomes.pending if isinstance(each, str)]
    operations = include_authorized_operations
    try:
        if names:
            await _describe_by_pages(dispatcher, names, outcomes, deadline, operations)
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
) -> None:
    """By DescribeTopicPartitions (Kafka 3.8), which returns the topics in order, in pages."""
    remaining = sorted(names)
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
            rest = [name for name in names if outcomes.is_pending(name)]
            await _describe_by_metadata(
                dispatcher, rest, outcomes, deadline, include_authorized_operations
            )
            return
        following = page.next_cursor
        if following is not None and not _advances(cursor, following, remaining):
            raise KafkaProtocolError(
                f"The broker's next page of topics begins at {following.topic_name!r} "
                f"{following.partition_index}, which is not after the page before"
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


def _advances(before: Cursor | None, after: Cursor, names: list[str]) -> bool:
    """True if the pages go on, so that they come to an end."""
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
    if by_id:
        response = await dispatcher.ask(
            MetadataRequest(
                topics=[MetadataRequestTopic(topic_id=each, name=None) for each in asked],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=include_authorized_operations,
            ),
            ANY,
            deadline,
            oldest=_IDS_FROM,
            feature="Describing topics by id",
        )
    else:
        response = await _metadata(
            dispatcher, deadline, asked, include_authorized_operations=include_authorized_operations
        )
    for topic in response.topics:
        item = topic.topic_id if by_id else topic.name
        if not outcomes.on_code(item, topic.error_code):
            partitions = {each.partition_index: _of_metadata(each) for each in topic.partitions}
            outcomes.on_value(item, _topic(topic, partitions, include_authorized_operations))
    outcomes.end(asked)


async def wait_for_topics(
    dispatcher: Dispatcher,
    topics: Iterable[str] | Mapping[str, int],
    timeout_ms: float | None,
) -> None:
    """See `AIOKafkaAdminClient.wait_for_topics`."""
    deadline = dispatcher.deadline(timeout_ms)
    least = dict.fromkeys(_names(topics), 1)
    if isinstance(topics, Mapping):
        for name, count in topics.items():
            least[name] = whole(f"partitions of {name!r}", count, least=1, most=INT32)
    if not least:
        return
    cluster = dispatcher.cluster
    nodes = list((await cluster.refresh(deadline)).brokers)

    def check(response: MetadataResponse) -> None:
        answer = {topic.name: topic for topic in response.topics}
        for name, count in least.items():
            _check_visible(name, count, answer.get(name))

    async def wait_for(node_id: int) -> None:
        request = PerVersion(
            MetadataRequest, lambda version: metadata_request(least, version, auto_create=False)
        )
        while True:
            # In short turns: a broker that leaves the cluster need not know the topics.
            turn = min(deadline, asyncio.get_running_loop().time() + _TURN)
            try:
                await dispatcher.ask(request, ToNode(node_id), turn, check=check)
                return
            except (KafkaTimeoutError, NodeNotReadyError) as error:
                if node_id not in cluster.metadata.brokers:
                    return
                cluster.request_update()
                if turn >= deadline:
                    why = error.__cause__ or error
                    raise KafkaTimeoutError(
                        f"broker {node_id} did not show the topics in time: {why}"
                    ) from error

    waits = [asyncio.ensure_future(wait_for(node_id)) for node_id in nodes]
    try:
        await asyncio.gather(*waits)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


_TURN: Final = 5.0
"""Seconds after which `wait_for_topics` looks whether a broker is still in the cluster."""


def _check_visible(name: str, partitions: int, answer: MetadataResponseTopic | None) -> None:
    """Raise unless a broker shows a topic with its partitions and their leaders."""
    label = f"topic {name!r}"
    if answer is None:
        raise KafkaProtocolError(f"{label}: the response leaves it out")
    if answer.error_code:
        raise item_error(answer.error_code, label)
    if len(answer.partitions) < partitions:
        raise UnknownTopicOrPartitionError(
            f"{label} has {len(answer.partitions)} partitions here, not {partitions}"
        )
    without = [each.partition_index for each in answer.partitions if each.leader_id == NO_LEADER]
    if without:
        raise LeaderNotAvailableError(f"{label}: partition {without[0]} has no leader here")


async def _metadata(
    dispatcher: Dispatcher,
    deadline: float,
    names: list[str] | None,
    *,
    include_authorized_operations: bool = False,
) -> MetadataResponse:
    """Metadata of some topics, or of all (None). Creates no topic.

    Brokers before 0.11 create topics that a request names, so they are asked for all topics.
    """
    all_of_them = False

    def build(version: int) -> MetadataRequest:
        nonlocal all_of_them
        all_of_them = version < _NO_CREATION_FROM
        request = metadata_request(None if all_of_them else names, version, auto_create=False)
        request.include_topic_authorized_operations = include_authorized_operations
        return request

    response = await dispatcher.ask(
        PerVersion(MetadataRequest, build),
        ANY,
        deadline,
        oldest=_OPERATIONS_FROM if include_authorized_operations else 0,
        feature="Describing the authorized operations of topics",
    )
    if all_of_them and names is not None:
        found = {topic.name: topic for topic in response.topics}
        unknown = UnknownTopicOrPartitionError.errno
        response.topics = [
            found.get(name) or MetadataResponseTopic(error_code=unknown, name=name)
            for name in names
        ]
    return response


def _names(topics: object) -> list[str]:
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise TypeError(f"`topics` should be several names, not {topics!r}")
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
