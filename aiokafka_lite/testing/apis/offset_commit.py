"""OffsetCommit, v0-v10: store the committed offsets of a group.

- v0 was stored in ZooKeeper; here it is a commit from outside the group;
- v1: generation and member; a client timestamp, in this version only;
- v2-v4: the retention time; since v5 the broker decides (KIP-211);
- v6: the leader epoch of the last consumed record (KIP-320);
- v7: static members (KIP-345);
- v9: members of consumer groups (KIP-848), with their epoch; GROUP_ID_NOT_FOUND;
- v10: topics by id (KIP-848).
"""

from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    GroupIdNotFound,
    IllegalGenerationError,
    UnknownTopicIdError,
)
from aiokafka_lite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.groups.base_group import Group, PartitionCheck
from aiokafka_lite.testing.groups.committed_offsets import CommittedOffset, check_metadata
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.topics import Topic

_EPOCHS_SINCE: Final = 9
_TOPIC_IDS_SINCE: Final = 10
_NOT_SAID: Final = -1  # of timestamps and times to keep


def handle(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    try:
        context.check()
        context.authorize(Operation.READ, Resource.GROUP, request.group_id)
    except BrokerResponseError as error:
        refused = [
            (asked, [_answer(each, error.errno) for each in asked.partitions])
            for asked in request.topics
        ]
        return _response(refused)
    return _Commit(request, context).answer()


class _Commit:
    """One request; the group is checked only if there is a valid partition."""

    def __init__(self, request: OffsetCommitRequest, context: RequestContext) -> None:
        self._request = request
        self._context = context
        self._check: PartitionCheck | None = None

    def answer(self) -> OffsetCommitResponse:
        found = [(asked, self._find_partitions(asked)) for asked in self._request.topics]
        group: Group | BrokerResponseError | None = None
        if any(error is None for _, partitions in found for _, error in partitions):
            try:
                group = self._check_group()
            except BrokerResponseError as error:
                group = error
        return _response(
            [
                (asked, [self._outcome(group, asked.name, *each) for each in partitions])
                for asked, partitions in found
            ]
        )

    def _find_partitions(
        self, asked: OffsetCommitRequestTopic
    ) -> list[tuple[OffsetCommitRequestPartition, BrokerResponseError | None]]:
        """Return the partitions of a topic, each with its error or None."""
        try:
            topic = self._find_topic(asked)
        except BrokerResponseError as error:
            return [(each, error) for each in asked.partitions]
        asked.name = topic.name
        return [(each, self._refusal(topic, each.partition_index)) for each in asked.partitions]

    def _find_topic(self, asked: OffsetCommitRequestTopic) -> Topic:
        context = self._context
        if context.version >= _TOPIC_IDS_SINCE:
            if asked.topic_id == ZERO_UUID:
                raise UnknownTopicIdError("the topic id must not be zero")
            topic = context.topic(None, asked.topic_id)
            context.authorize(Operation.READ, Resource.TOPIC, topic.name)
            return topic
        context.authorize(Operation.READ, Resource.TOPIC, asked.name)
        return context.topic(asked.name)

    def _refusal(self, topic: Topic, partition: int) -> BrokerResponseError | None:
        try:
            self._context.check(topic.name, partition)
            topic.partition(partition)
        except BrokerResponseError as error:
            return error
        return None

    def _check_group(self) -> Group:
        request, version = self._request, self._context.version
        self._context.check_coordinator(CoordinatorType.GROUP, request.group_id)
        generation = request.generation_id_or_member_epoch
        unknown = GroupIdNotFound if version >= _EPOCHS_SINCE else IllegalGenerationError
        group = self._context.state.groups.for_commit(request.group_id, generation, unknown)
        self._check = group.check_commit(
            request.member_id,
            generation,
            request.group_instance_id,
            transactional=False,
            version=version,
        )
        group.on_offset_commit(request.member_id)
        return group

    def _outcome(
        self,
        group: Group | BrokerResponseError | None,
        topic: str,
        partition: OffsetCommitRequestPartition,
        refusal: BrokerResponseError | None,
    ) -> OffsetCommitResponsePartition:
        """Commit a partition, and return its response."""
        try:
            if refusal is not None:
                raise refusal
            if isinstance(group, BrokerResponseError):
                raise group
            if group is not None:
                self._commit(group, topic, partition)
        except BrokerResponseError as error:
            return _answer(partition, error.errno)
        return _answer(partition, 0)

    def _commit(self, group: Group, topic: str, partition: OffsetCommitRequestPartition) -> None:
        state = self._context.state
        if self._check is not None:
            self._check(topic, partition.partition_index)
        limit = state.broker_config.integer("offset.metadata.max.bytes")
        metadata = check_metadata(partition.committed_metadata, limit)
        now_ms = state.clock.now_ms()
        keep_ms = self._request.retention_time_ms
        told_ms = partition.commit_timestamp
        committed = CommittedOffset(
            partition.committed_offset,
            partition.committed_leader_epoch,
            metadata,
            commit_ms=now_ms if told_ms == _NOT_SAID else told_ms,
            expire_ms=-1 if keep_ms == _NOT_SAID else now_ms + keep_ms,
        )
        group.offsets.commit(topic, partition.partition_index, committed)


def _answer(partition: OffsetCommitRequestPartition, code: int) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition.partition_index, code)


def _response(
    topics: list[tuple[OffsetCommitRequestTopic, list[OffsetCommitResponsePartition]]],
) -> OffsetCommitResponse:
    """Return the response, with each topic's name or id as in the request."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(asked.name, asked.topic_id, partitions)
            for asked, partitions in topics
        ]
    )
