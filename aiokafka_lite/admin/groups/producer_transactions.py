"""Lists and describes transactions and producers.

Source: ListTransactionsRequest.json v0-v2, DescribeTransactionsRequest.json v0,
DescribeProducersRequest.json v0; KIP-664, 994, 1152.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from aiokafka_lite._arguments import (
    INT32,
    INT64,
    as_partitions,
    whole,
    wire_string,
)
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.groups.group_calls import (
    by_topic,
    id_label,
    names_of,
    of_coordinator,
    partition_label,
)
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import ToNode, raise_error_code
from aiokafka_lite.errors import (
    IllegalArgumentError,
    KafkaError,
    NotLeaderForPartitionError,
)
from aiokafka_lite.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from aiokafka_lite.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from aiokafka_lite.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "ProducerDescription",
    "TransactionDescription",
    "TransactionListing",
    "TransactionListings",
    "describe_producers",
    "describe_transactions",
    "list_transactions",
]

_DURATION_FROM: Final = 1
"""The version of ListTransactions that filters by duration (KIP-994)."""
_PATTERN_FROM: Final = 2
"""The version of ListTransactions that filters by a pattern of the id (KIP-1152)."""


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id and its transaction.

    Attributes:
        state: "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit",
            "CompleteAbort", "Dead", ...
    """

    transactional_id: str
    producer_id: int
    state: str


class TransactionListings:
    """The transactions that the brokers listed, and the errors of the brokers that did not.

    Attributes:
        by_broker: The transactions of each coordinator, or its error, by node id.
    """

    __slots__ = ("by_broker",)

    def __init__(self, by_broker: Results[int, list[TransactionListing]]) -> None:
        self.by_broker = by_broker

    def valid(self) -> list[TransactionListing]:
        """Return the transactions of every broker that listed its own."""
        listed = {
            each.transactional_id: each
            for found in self.by_broker.valid().values()
            for each in found
        }
        return list(listed.values())

    def errors(self) -> dict[int, KafkaError]:
        """Return the error of each broker that did not list its transactions, by node id."""
        return self.by_broker.errors()

    def raise_for_errors(self) -> list[TransactionListing]:
        """Return the transactions, if every broker listed its own.

        Raises:
            KafkaError: The error of the first broker that did not.
        """
        self.by_broker.raise_for_errors()
        return self.valid()

    def __repr__(self) -> str:
        return f"TransactionListings({self.by_broker!r})"


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The transaction of a transactional id.

    Attributes:
        coordinator_id: Node id of its coordinator; None if the client has dropped the coordinator
            from its cache since.
        timeout_ms: After this time the coordinator aborts an open transaction.
        start_time_ms: Milliseconds since the epoch; None if no transaction is open.
        partitions: The partitions that the open transaction has records in.
    """

    transactional_id: str
    coordinator_id: int | None
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """A producer that wrote to a partition, idempotent or transactional.

    Attributes:
        last_sequence: The sequence of its last record; None if it is unknown.
        last_timestamp_ms: The time of its last record; None if it is unknown.
        coordinator_epoch: The epoch of the coordinator of its last transaction marker; None if it
            has none.
        transaction_start_offset: The first offset of its open transaction; None if none is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None


async def list_transactions(
    dispatcher: Dispatcher,
    timeout_ms: float | None,
    *,
    states: Collection[str],
    producer_ids: Collection[int],
    min_duration_ms: int | None,
    transactional_id_pattern: str | None,
) -> TransactionListings:
    """See `AIOKafkaAdminClient.list_transactions`."""
    deadline = dispatcher.deadline(timeout_ms)
    request = ListTransactionsRequest(
        state_filters=names_of("states", states),
        producer_id_filters=[whole("producer id", each, most=INT64) for each in producer_ids],
    )
    oldest, feature = 0, "Listing transactions"
    if min_duration_ms is not None:
        request.duration_filter = whole("min_duration_ms", min_duration_ms, most=INT64)
        oldest, feature = _DURATION_FROM, "Listing transactions by duration"
    if transactional_id_pattern is not None:
        request.transactional_id_pattern = wire_string(
            "transactional_id_pattern", transactional_id_pattern
        )
        oldest, feature = _PATTERN_FROM, "Listing transactions by a pattern"

    def read(response: ListTransactionsResponse) -> list[TransactionListing]:
        raise_error_code(response)
        if response.unknown_state_filters:
            names = ", ".join(sorted(response.unknown_state_filters))
            raise IllegalArgumentError(
                f"the broker does not know these transaction states: {names}"
            )
        return [
            TransactionListing(each.transactional_id, each.producer_id, each.transaction_state)
            for each in response.transaction_states
        ]

    return TransactionListings(
        await dispatcher.every_broker(request, read, deadline, oldest=oldest, feature=feature)
    )


async def describe_transactions(
    dispatcher: Dispatcher, transactional_ids: object, timeout_ms: float | None
) -> Results[str, TransactionDescription]:
    """See `AIOKafkaAdminClient.describe_transactions`."""
    deadline = dispatcher.deadline(timeout_ms)
    asked = names_of("transactional_ids", transactional_ids)
    outcomes: Outcomes[str, TransactionDescription] = Outcomes(
        asked, id_label, retriable=of_coordinator
    )

    def build(version: int, pending: list[str]) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(transactional_ids=pending)

    def read(
        response: DescribeTransactionsResponse, outcomes: Outcomes[str, TransactionDescription]
    ) -> None:
        for each in response.transaction_states:
            key = each.transactional_id
            if outcomes.on_code(key, each.error_code):
                continue
            started = each.transaction_start_time_ms
            outcomes.on_value(
                key,
                TransactionDescription(
                    key,
                    dispatcher.cluster.coordinators.get(CoordinatorKind.TRANSACTION, key),
                    each.transaction_state,
                    each.producer_id,
                    each.producer_epoch,
                    each.transaction_timeout_ms,
                    None if started < 0 else started,
                    frozenset(
                        TopicPartition(topic.topic, partition)
                        for topic in each.topics
                        for partition in topic.partitions
                    ),
                ),
            )

    return await dispatcher.settle_on_coordinators(
        CoordinatorKind.TRANSACTION,
        outcomes,
        DescribeTransactionsRequest,
        build,
        read,
        deadline,
        feature="Describing transactions",
    )


async def describe_producers(
    dispatcher: Dispatcher,
    partitions: Iterable[TopicPartition],
    timeout_ms: float | None,
    *,
    broker_id: int | None,
) -> Results[TopicPartition, list[ProducerDescription]]:
    """See `AIOKafkaAdminClient.describe_producers`."""
    deadline = dispatcher.deadline(timeout_ms)

    def retriable(error: KafkaError) -> bool:
        # As in Java: a broker that has no replica of the partition will not get one soon.
        final = broker_id is not None and isinstance(error, NotLeaderForPartitionError)
        return error.retriable and not final

    outcomes: Outcomes[TopicPartition, list[ProducerDescription]] = Outcomes(
        as_partitions(partitions), partition_label, retriable=retriable
    )

    def build(version: int, pending: list[TopicPartition]) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            [TopicRequest(topic, numbers) for topic, numbers in by_topic(pending).items()]
        )

    def read(
        response: DescribeProducersResponse,
        outcomes: Outcomes[TopicPartition, list[ProducerDescription]],
    ) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                if outcomes.on_code(tp, partition.error_code, partition.error_message):
                    continue
                producers = [
                    ProducerDescription(
                        each.producer_id,
                        each.producer_epoch,
                        _known(each.last_sequence),
                        _known(each.last_timestamp),
                        _known(each.coordinator_epoch),
                        _known(each.current_txn_start_offset),
                    )
                    for each in partition.active_producers
                ]
                outcomes.on_value(tp, producers)

    feature = "Describing producers"
    if broker_id is None:
        return await dispatcher.settle_on_leaders(
            outcomes, DescribeProducersRequest, build, read, deadline, feature=feature
        )
    return await dispatcher.settle(
        outcomes,
        DescribeProducersRequest,
        build,
        read,
        ToNode(whole("broker_id", broker_id, most=INT32)),
        deadline,
        feature=feature,
    )


def _known(value: int) -> int | None:
    return None if value < 0 else value
