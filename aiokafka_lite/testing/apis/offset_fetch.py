"""OffsetFetch, v0-v10: the committed offsets of groups.

- v0 read from ZooKeeper; here it is the same as v1;
- v2: null requests all partitions; an error of the group is top-level, not in each partition;
- v5: leader epochs (KIP-320);
- v7: `require_stable`: UNSTABLE_OFFSET_COMMIT while a transaction may change an offset (KIP-447);
- v8: several groups (KIP-709);
- v9: the member and its epoch, checked in consumer groups (KIP-848);
- v10: topics by id (KIP-848).
"""

from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    GroupIdNotFound,
    UnknownTopicIdError,
    UnstableOffsetCommitError,
)
from aiokafka_lite.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.groups.base_group import Group
from aiokafka_lite.testing.security.acl_table import Operation, Resource

_TOP_ERROR_SINCE: Final = 2
_GROUPS_SINCE: Final = 8
_TOPIC_IDS_SINCE: Final = 10
_NOTHING_COMMITTED: Final = -1

Partition = OffsetFetchResponsePartitions


def handle(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    if context.version >= _GROUPS_SINCE:
        return OffsetFetchResponse(
            groups=[_group(asked, request.require_stable, context) for asked in request.groups]
        )
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(each.name, partition_indexes=each.partition_indexes)
            for each in request.topics
        ]
    asked = OffsetFetchRequestGroup(request.group_id, topics=topics)
    return _as_before_groups(_group(asked, request.require_stable, context), asked, context)


def _group(
    asked: OffsetFetchRequestGroup, require_stable: bool, context: RequestContext
) -> OffsetFetchResponseGroup:
    try:
        context.check()
        context.authorize(Operation.DESCRIBE, Resource.GROUP, asked.group_id)
        context.check_coordinator(CoordinatorType.GROUP, asked.group_id)
        group = context.state.groups.get(asked.group_id)
        if group is not None:
            group.check_fetch(asked.member_id, asked.member_epoch)
    except GroupIdNotFound:
        group = None  # like a group without committed offsets
    except BrokerResponseError as error:
        return OffsetFetchResponseGroup(asked.group_id, error_code=error.errno)
    reader = _Reader(group, require_stable, context)
    topics = reader.all() if asked.topics is None else [reader.topic(each) for each in asked.topics]
    return OffsetFetchResponseGroup(asked.group_id, topics)


class _Reader:
    """Reads the offsets of one group; without a group, there are none."""

    def __init__(self, group: Group | None, require_stable: bool, context: RequestContext) -> None:
        self._group = group
        self._require_stable = require_stable
        self._context = context

    def all(self) -> list[OffsetFetchResponseTopics]:
        """Return every offset of the topics that the client may describe."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in self._group.offsets.all() if self._group else ():
            by_topic.setdefault(topic, []).append(partition)
        topics = self._context.state.topics
        return [
            OffsetFetchResponseTopics(
                name,
                topics[name].topic_id if name in topics else ZERO_UUID,
                [self._partition(name, index) for index in indexes],
            )
            for name, indexes in by_topic.items()
            if self._context.allows(Operation.DESCRIBE, Resource.TOPIC, name)
            and (name in topics or self._context.version < _TOPIC_IDS_SINCE)
        ]

    def topic(self, asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        try:
            name = self._name_of(asked)
            self._context.authorize(Operation.DESCRIBE, Resource.TOPIC, name)
        except BrokerResponseError as error:
            partitions = [_without_offset(index, error.errno) for index in asked.partition_indexes]
        else:
            partitions = [self._partition(name, index) for index in asked.partition_indexes]
        return OffsetFetchResponseTopics(asked.name, asked.topic_id, partitions)

    def _name_of(self, asked: OffsetFetchRequestTopics) -> str:
        """Return the topic's name; a missing topic has no offsets, which is not an error."""
        if self._context.version < _TOPIC_IDS_SINCE:
            return asked.name
        if asked.topic_id == ZERO_UUID:
            raise UnknownTopicIdError("the topic id must not be zero")
        return self._context.topic(None, asked.topic_id).name

    def _partition(self, topic: str, index: int) -> OffsetFetchResponsePartitions:
        offsets = self._group.offsets if self._group else None
        try:
            self._context.check(topic, index)
            if self._require_stable and offsets is not None and offsets.has_pending(topic, index):
                raise UnstableOffsetCommitError(
                    f"an open transaction may change the offset of {topic}-{index}"
                )
        except BrokerResponseError as error:
            return _without_offset(index, error.errno)
        committed = offsets.find(topic, index) if offsets is not None else None
        if committed is None:
            return _without_offset(index)
        return Partition(index, committed.offset, committed.leader_epoch, committed.metadata)


def _without_offset(index: int, error_code: int = 0) -> OffsetFetchResponsePartitions:
    return Partition(index, _NOTHING_COMMITTED, -1, "", error_code)


def _as_before_groups(
    found: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, context: RequestContext
) -> OffsetFetchResponse:
    """Return the v0-v7 response for its single group."""
    topics = found.topics
    if found.error_code and context.version < _TOP_ERROR_SINCE:
        topics = [
            OffsetFetchResponseTopics(
                each.name,
                partitions=[
                    _without_offset(index, found.error_code) for index in each.partition_indexes
                ],
            )
            for each in asked.topics or ()
        ]
    return OffsetFetchResponse(
        error_code=found.error_code if context.version >= _TOP_ERROR_SINCE else 0,
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        each.partition_index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.metadata,
                        each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
