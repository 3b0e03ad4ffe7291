"""Ends transactions: aborts those that hang, and fences the producers of transactional ids.

Source: WriteTxnMarkersRequest.json v0-v2, InitProducerIdRequest.json; KIP-360, 664.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from aiokafka_lite._arguments import INT32, INT64, as_partition, whole
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.groups.group_calls import (
    id_label,
    names_of,
    of_coordinator,
    partition_label,
)
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import CoordinatorOf
from aiokafka_lite.errors import (
    BrokerNotAvailableError,
    ConcurrentTransactions,
    KafkaError,
    KafkaProtocolError,
    NotLeaderForPartitionError,
    ReplicaNotAvailableError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from aiokafka_lite.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from aiokafka_lite.structs import TopicPartition

__all__ = ["AbortTransactionSpec", "FencedProducer", "abort_transaction", "fence_producers"]

_INT16: Final = 2**15 - 1

_MOVED: Final = (
    BrokerNotAvailableError,
    NotLeaderForPartitionError,
    ReplicaNotAvailableError,
    UnknownTopicOrPartitionError,
)


@dataclass(frozen=True, slots=True)
class AbortTransactionSpec:
    """A hanging transaction of a partition, as `describe_producers` finds it.

    Attributes:
        coordinator_epoch: None or negative: 0, as Kafka's own tool sends it.
    """

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The producer id and epoch that fenced the producers of a transactional id."""

    producer_id: int
    producer_epoch: int


async def abort_transaction(
    dispatcher: Dispatcher, spec: AbortTransactionSpec, timeout_ms: float | None
) -> None:
    """See `AIOKafkaAdminClient.abort_transaction`."""
    deadline = dispatcher.deadline(timeout_ms)
    if not isinstance(spec, AbortTransactionSpec):
        raise TypeError(f"`spec` must be an AbortTransactionSpec, not {spec!r}")
    tp = as_partition(spec.topic_partition)
    producer_id = whole("producer_id", spec.producer_id, most=INT64)
    producer_epoch = whole("producer_epoch", spec.producer_epoch, most=_INT16)
    epoch = spec.coordinator_epoch
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(tp.topic, [tp.partition])],
        coordinator_epoch=0
        if epoch is None or epoch < 0
        else whole("coordinator_epoch", epoch, most=INT32),
    )
    outcomes: Outcomes[TopicPartition, None] = Outcomes(
        [tp], partition_label, retriable=lambda error: isinstance(error, _MOVED)
    )

    def build(version: int, pending: list[TopicPartition]) -> WriteTxnMarkersRequest:
        return WriteTxnMarkersRequest([marker])

    def read(response: WriteTxnMarkersResponse, outcomes: Outcomes[TopicPartition, None]) -> None:
        for written in response.markers:
            if written.producer_id != producer_id:
                raise KafkaProtocolError(
                    f"the broker ended a transaction of producer id {written.producer_id}; "
                    f"{producer_id} was requested"
                )
            for topic in written.topics:
                for each in topic.partitions:
                    found = TopicPartition(topic.name, each.partition_index)
                    if not outcomes.on_code(found, each.error_code):
                        outcomes.on_value(found, None)

    results = await dispatcher.settle_on_leaders(
        outcomes,
        WriteTxnMarkersRequest,
        build,
        read,
        deadline,
        feature="Aborting a hanging transaction",
    )
    results.raise_for_errors()


async def fence_producers(
    dispatcher: Dispatcher, transactional_ids: object, timeout_ms: float | None
) -> Results[str, FencedProducer]:
    """See `AIOKafkaAdminClient.fence_producers`."""
    deadline = dispatcher.deadline(timeout_ms)
    asked = names_of("transactional_ids", transactional_ids)
    outcomes: Outcomes[str, FencedProducer] = Outcomes(
        asked, id_label, retriable=lambda error: False
    )

    async def fence(transactional_id: str) -> None:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            # No record is written under the new epoch, so any timeout that the broker accepts will
            # do; Java also sends the call's.
            transaction_timeout_ms=dispatcher.broker_timeout_ms(deadline),
        )

        def check(response: InitProducerIdResponse) -> None:
            if not response.error_code:
                fenced = FencedProducer(response.producer_id, response.producer_epoch)
                outcomes.on_value(transactional_id, fenced)
                return
            error = item_error(response.error_code, id_label(transactional_id))
            if of_coordinator(error) or isinstance(error, ConcurrentTransactions):
                raise error  # retried
            outcomes.on_error(transactional_id, error)

        route = CoordinatorOf(transactional_id, CoordinatorKind.TRANSACTION)
        try:
            await dispatcher.ask(request, route, deadline, check=check)
        except KafkaError as error:
            outcomes.fail_pending(error, [transactional_id])

    async with asyncio.TaskGroup() as tasks:
        for each in asked:
            tasks.create_task(fence(each), name=f"fence {id_label(each)}")
    return outcomes.results()
