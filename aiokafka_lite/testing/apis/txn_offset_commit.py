"""TxnOffsetCommit, v0-v6: offsets of a group that take effect when a transaction commits.

- v2: leader epochs (KIP-320);
- v3: the group's member and generation, which fence former members (KIP-447);
- v4: TRANSACTION_ABORTABLE instead of INVALID_TXN_STATE (KIP-890);
- v5: the commit itself adds the group to the transaction, without AddOffsetsToTxn;
- v6: topics by id; GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH instead of ILLEGAL_GENERATION.
"""

from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    GroupIdNotFound,
    IllegalGenerationError,
    InvalidGroupIdError,
    StaleMemberEpochError,
    UnknownTopicIdError,
)
from aiokafka_lite.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType, slot_of
from aiokafka_lite.testing.groups.base_group import Group, PartitionCheck
from aiokafka_lite.testing.groups.committed_offsets import CommittedOffset, check_metadata
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.transactions.offsets_topic import OFFSETS_TOPIC
from aiokafka_lite.testing.transactions.transaction import ProducerIdentity, TopicPartitionKey
from aiokafka_lite.testing.transactions.verification import VERIFICATION, Asker, verify

_ABORTABLE_SINCE: Final = 4
_ADDS_GROUP_SINCE: Final = 5
_TOPIC_IDS_SINCE: Final = 6


def handle(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    try:
        context.check()
        context.authorize(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id)
        context.authorize(Operation.READ, Resource.GROUP, request.group_id)
        codes = _Commit(request, context).codes()
    except BrokerResponseError as error:
        codes = {}
        default = error.errno
    else:
        default = 0
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                "" if context.version >= _TOPIC_IDS_SINCE else topic.name,
                topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        each.partition_index, codes.get((topic.name, each.partition_index), default)
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


class _Commit:
    """One request; the group is checked only if there is a valid partition."""

    def __init__(self, request: TxnOffsetCommitRequest, context: RequestContext) -> None:
        self._request = request
        self._context = context
        self._producer = ProducerIdentity(request.producer_id, request.producer_epoch)

    def codes(self) -> dict[TopicPartitionKey, int]:
        """Commit the valid partitions; return the error code of each.

        Raises:
            BrokerResponseError: No existing partition is committed.
        """
        codes: dict[TopicPartitionKey, int] = {}
        found = []
        for topic in self._request.topics:
            for each in topic.partitions:
                try:
                    self._check_partition(topic, each)
                except BrokerResponseError as error:
                    codes[topic.name, each.partition_index] = error.errno
                else:
                    found.append((topic.name, each))
        if found:
            try:
                codes.update(self._commit(found))
            except BrokerResponseError as error:
                code = self._code(error)
                codes.update({(name, each.partition_index): code for name, each in found})
        return codes

    @property
    def _knows_groups(self) -> bool:
        """True if the client knows the error codes of consumer groups (KIP-848)."""
        return self._context.version >= _TOPIC_IDS_SINCE

    def _code(self, error: BrokerResponseError) -> int:
        is_stale = isinstance(error, StaleMemberEpochError) and not self._knows_groups
        return IllegalGenerationError.errno if is_stale else error.errno

    def _check_partition(
        self, topic: TxnOffsetCommitRequestTopic, asked: TxnOffsetCommitRequestPartition
    ) -> None:
        """Check that the topic exists and the client may read it; set the topic's name."""
        context = self._context
        if context.version >= _TOPIC_IDS_SINCE:
            if topic.topic_id == ZERO_UUID:
                raise UnknownTopicIdError("the topic id must not be zero")
            topic.name = context.topic(None, topic.topic_id).name
        context.authorize(Operation.READ, Resource.TOPIC, topic.name)
        context.check(topic.name, asked.partition_index)
        context.topic(topic.name).partition(asked.partition_index)

    def _commit(
        self, found: list[tuple[str, TxnOffsetCommitRequestPartition]]
    ) -> dict[TopicPartitionKey, int]:
        request, state = self._request, self._context.state
        if not request.group_id:
            raise InvalidGroupIdError("the group id must not be empty")
        self._context.check_coordinator(CoordinatorType.GROUP, request.group_id)
        verified = self._verify()
        group = state.groups.for_commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            GroupIdNotFound if self._knows_groups else IllegalGenerationError,
        )
        check = group.check_commit(
            request.member_id,
            request.generation_id_or_member_epoch,
            request.group_instance_id,
            transactional=True,
        )
        now_ms = state.clock.now_ms()
        slot = slot_of(request.group_id)
        state.transactions.offsets.append(slot, self._producer, now_ms, verified=verified)
        return {
            (topic, each.partition_index): self._keep(group, check, topic, each, now_ms)
            for topic, each in found
        }

    def _verify(self) -> bool:
        """Return True if the coordinator has verified that the group is in the transaction.

        Raises:
            BrokerResponseError: It is not.
        """
        transactions, version = self._context.state.transactions, self._context.version
        asker = Asker.OLD if version < _ABORTABLE_SINCE else Asker.KNOWS_ABORTABLE
        asker = Asker.ADDS_BY_WRITING if version >= _ADDS_GROUP_SINCE else asker
        slot = slot_of(self._request.group_id)
        adds = asker is Asker.ADDS_BY_WRITING
        if not transactions.offsets.needs_verification(slot, self._producer, adds=adds):
            return False
        transactional_id, key = self._request.transactional_id, (OFFSETS_TOPIC, slot)
        enabled = self._context.state.broker_config(VERIFICATION) == "true"
        verdict = verify(
            transactions, transactional_id, self._producer, [key], asker, enabled=enabled
        )[key]
        if verdict is not None:
            raise verdict
        return True

    def _keep(
        self,
        group: Group,
        check: PartitionCheck | None,
        topic: str,
        asked: TxnOffsetCommitRequestPartition,
        now_ms: int,
    ) -> int:
        """Store one offset until the transaction ends; return its error code."""
        try:
            if check is not None:
                check(topic, asked.partition_index)
            limit = self._context.state.broker_config.integer("offset.metadata.max.bytes")
            metadata = check_metadata(asked.committed_metadata, limit)
        except BrokerResponseError as error:
            return self._code(error)
        committed = CommittedOffset(
            asked.committed_offset, asked.committed_leader_epoch, metadata, now_ms
        )
        group.offsets.commit_pending(
            self._producer.producer_id, topic, asked.partition_index, committed
        )
        return 0
