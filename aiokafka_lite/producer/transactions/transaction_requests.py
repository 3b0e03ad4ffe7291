"""Encodes the steps of a transaction as requests, and interprets the answers. Sans-IO.

Source: InitProducerIdRequest.json v0-v6, AddPartitionsToTxnRequest.json v0-v3 (later ones are
between brokers), AddOffsetsToTxnRequest.json v0-v4, TxnOffsetCommitRequest.json v0-v6,
EndTxnRequest.json v0-v5; KIP-360, 447, 516, 890.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.errors import UnsupportedVersionError
from aiokafka_lite.group.group_metadata import GroupMetadata
from aiokafka_lite.group.offsets.messages import TopicIds, answered
from aiokafka_lite.producer.idempotence import checked_stamp
from aiokafka_lite.producer.transactions.transaction_steps import (
    AddOffsets,
    AddPartitions,
    Answer,
    CommitOffsets,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    Step,
)
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from aiokafka_lite.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from aiokafka_lite.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from aiokafka_lite.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from aiokafka_lite.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["BUMPS_FROM", "Question", "answer_of", "question"]

BUMPS_FROM: Final = 3
"""First InitProducerId version with the producer's id and epoch (KIP-360, Kafka 2.5)."""

_ADDS_BY_CLIENTS_UNTIL: Final = 3  # AddPartitionsToTxn
_END_BUMPS_FROM: Final = 5  # EndTxn (KIP-890)
_COMMIT_ADDS_FROM: Final = 5  # TxnOffsetCommit (KIP-890)
_COMMIT_MEMBER_FROM: Final = 3  # TxnOffsetCommit (KIP-447)
_COMMIT_NAMES_UNTIL: Final = 5

_Request: TypeAlias = PerVersion[Any]  # of one of five responses


class Question(NamedTuple):
    """A step as a request, and the versions that support it."""

    request: _Request
    oldest: int
    latest: int | None
    ids: TopicIds
    """Ids of the topics whose offsets are committed, as sent in the request."""


def question(step: Step, transactional_id: str, timeout_ms: int, ids: TopicIds) -> Question:
    """Encode a step as a request.

    Args:
        timeout_ms: `transaction_timeout_ms`.
        ids: The ids of all topics of a CommitOffsets, or of none.
    """
    oldest, latest = 0, None
    match step:
        case InitProducer(identity=(producer_id, epoch)):
            oldest = BUMPS_FROM if producer_id >= 0 else 0
            request: _Request = _same(
                InitProducerIdRequest(
                    transactional_id=transactional_id,
                    transaction_timeout_ms=timeout_ms,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                )
            )
        case AddPartitions(identity=(producer_id, epoch), partitions=partitions):
            latest = _ADDS_BY_CLIENTS_UNTIL
            request = _same(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=transactional_id,
                    v3_and_below_producer_id=producer_id,
                    v3_and_below_producer_epoch=epoch,
                    v3_and_below_topics=[
                        AddPartitionsToTxnTopic(name, numbers)
                        for name, numbers in _by_topic(partitions).items()
                    ],
                )
            )
        case AddOffsets(identity=(producer_id, epoch), group_id=group_id):
            request = _same(
                AddOffsetsToTxnRequest(
                    transactional_id=transactional_id,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    group_id=group_id,
                )
            )
        case CommitOffsets(implicit=implicit, offsets=offsets):
            oldest = _COMMIT_ADDS_FROM if implicit else 0
            by_id = implicit and ids.cover({tp.topic for tp in offsets})
            latest = None if by_id else _COMMIT_NAMES_UNTIL
            if not implicit:
                latest = _COMMIT_ADDS_FROM - 1
            request = PerVersion(
                TxnOffsetCommitRequest,
                lambda version: _commit(step, transactional_id, ids, version),
            )
        case EndTransaction(identity=(producer_id, epoch), committed=committed, implicit=implicit):
            oldest = _END_BUMPS_FROM if implicit else 0
            latest = None if implicit else _END_BUMPS_FROM - 1
            request = _same(
                EndTxnRequest(
                    transactional_id=transactional_id,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    committed=committed,
                )
            )
        case FindCoordinator():
            raise TypeError("FindCoordinator is sent by the cluster")
    return Question(request, oldest, latest, ids)


def _same(request: Any) -> _Request:
    return PerVersion(type(request), lambda version: request)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics


def _commit(
    step: CommitOffsets, transactional_id: str, ids: TopicIds, version: int
) -> TxnOffsetCommitRequest:
    producer_id, epoch = step.identity
    group = _as_told(step.order.group, version)
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        generation_id_or_member_epoch=group.generation,
        member_id=group.member_id,
        group_instance_id=group.instance_id,
        topics=_commit_topics(step.offsets, ids, version > _COMMIT_NAMES_UNTIL),
    )


def _as_told(group: GroupMetadata, version: int) -> GroupMetadata:
    """Return the group's metadata, if the version supports its member.

    Raises:
        UnsupportedVersionError: The version has no field for the member, so a member that has lost
            its partitions would not be fenced (Kafka before 2.5).
    """
    if version < _COMMIT_MEMBER_FROM and group.member_id:
        raise UnsupportedVersionError(
            "offsets of a group member in a transaction require TxnOffsetCommit "
            f"v{_COMMIT_MEMBER_FROM} (Kafka 2.5); pass only the group id"
        )
    return group


def _commit_topics(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], ids: TopicIds, by_id: bool
) -> list[TxnOffsetCommitRequestTopic]:
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for tp, offset in offsets.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = TxnOffsetCommitRequestTopic(
                name="" if by_id else tp.topic,
                topic_id=ids.by_name[tp.topic] if by_id else ZERO_UUID,
                partitions=[],
            )
        epoch = offset.leader_epoch
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=-1 if epoch is None else epoch,
                committed_metadata=offset.metadata,
            )
        )
    return list(topics.values())


def answer_of(step: Step, response: Response, ids: TopicIds) -> Answer:
    """Convert a response to an answer.

    Args:
        step: The step that was sent.
        ids: The topic ids of the request.

    Raises:
        KafkaProtocolError: The producer id or epoch in the response is invalid.
    """
    match response:
        case InitProducerIdResponse():
            if response.error_code:
                return Answer(response.error_code)
            identity = checked_stamp(response.producer_id, response.producer_epoch)
            return Answer(identity=identity)
        case AddPartitionsToTxnResponse():
            return Answer(
                partitions={
                    TopicPartition(topic.name, each.partition_index): each.partition_error_code
                    for topic in response.results_by_topic_v3_and_below
                    for each in topic.results_by_partition
                }
            )
        case AddOffsetsToTxnResponse():
            return Answer(response.error_code)
        case TxnOffsetCommitResponse():
            return Answer(partitions=dict(answered(response.topics, ids)))
        case EndTxnResponse():
            if response.error_code:
                return Answer(response.error_code)
            bumped = (
                isinstance(step, EndTransaction) and step.implicit and response.producer_id >= 0
            )
            if not bumped:
                return Answer()
            return Answer(identity=checked_stamp(response.producer_id, response.producer_epoch))
        case _:
            raise TypeError(f"not a response to a transaction's step: {type(response).__name__}")
