"""One transactional id: its producer, its state, and the partitions of its open transaction.

Only what one id goes through is here; who may ask for it is the coordinator's to check.

Source: Kafka's `TransactionMetadata`; a change is not pending here, as it is stored at once.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self, TypeAlias

from aiokafka_lite.testing.clock import Timer

__all__ = [
    "LARGEST_EPOCH",
    "NO_EPOCH",
    "NO_PRODUCER",
    "ProducerIdentity",
    "TopicPartitionKey",
    "Transaction",
    "TransactionState",
]

TopicPartitionKey: TypeAlias = tuple[str, int]
"""(topic, partition); a group is its partition of `__consumer_offsets`."""

NO_EPOCH: Final = -1
NO_TIME: Final = -1
LARGEST_EPOCH: Final = 0x7FFF


class ProducerIdentity(NamedTuple):
    """What a producer writes under."""

    producer_id: int
    epoch: int

    @property
    def is_exhausted(self) -> bool:
        """No epoch is left to give: the largest is kept to fence the producer with."""
        return self.epoch >= LARGEST_EPOCH - 1


NO_PRODUCER: Final = ProducerIdentity(-1, NO_EPOCH)


class TransactionState(StrEnum):
    """As Kafka names them."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"  # never seen: an expired id is forgotten at once
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"  # never seen: the abort follows at once

    @property
    def is_ending(self) -> bool:
        """Decided, but not every partition has its marker."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_over(self) -> bool:
        """Every partition has its marker."""
        return self in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class Transaction:
    """The state of one transactional id.

    Attributes:
        transactional_id: Its name.
        producer: The identity in force.
        last_epoch: The epoch before, of a producer that may repeat its request; -1 of none.
        previous_producer_id: In force before the last change; -1 at first.
        next_producer_id: Takes over when the transaction has ended; -1 for none.
        timeout_ms: How long a transaction may stay open.
        state: Where it stands.
        partitions: Those of the open transaction.
        unmarked: Those that wait for the marker that ends it.
        start_ms: When the transaction began; -1 before the first.
        update_ms: When the id was last used.
        bumps_epoch: The transaction ends in a new epoch (KIP-890, part 2).
        timer: Aborts the open transaction.
    """

    __slots__ = (
        "bumps_epoch",
        "last_epoch",
        "next_producer_id",
        "partitions",
        "previous_producer_id",
        "producer",
        "start_ms",
        "state",
        "timeout_ms",
        "timer",
        "transactional_id",
        "unmarked",
        "update_ms",
    )

    def __init__(self, transactional_id: str, producer_id: int, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.producer = ProducerIdentity(producer_id, NO_EPOCH)
        self.last_epoch = NO_EPOCH
        self.previous_producer_id = NO_PRODUCER.producer_id
        self.next_producer_id = NO_PRODUCER.producer_id
        self.timeout_ms = timeout_ms
        self.state = TransactionState.EMPTY
        self.partitions: set[TopicPartitionKey] = set()
        self.unmarked: set[TopicPartitionKey] = set()
        self.start_ms = NO_TIME
        self.update_ms = NO_TIME
        self.bumps_epoch = False
        self.timer: Timer | None = None

    # Its producer

    def initialize(self, timeout_ms: int, last_epoch: int, now_ms: int) -> None:
        """Begin anew in the next epoch, after which the old one is fenced.

        Args:
            timeout_ms: Of its transactions from now on.
            last_epoch: The old epoch, if its producer itself asked; -1 if another did.
            now_ms: The time.
        """
        self._become(ProducerIdentity(self.producer.producer_id, self.producer.epoch + 1))
        self._begin(timeout_ms, last_epoch, now_ms)

    def rotate(self, producer_id: int, timeout_ms: int, last_epoch: int, now_ms: int) -> None:
        """Begin anew with another producer id, as no epoch of the old one is left."""
        self._become(ProducerIdentity(producer_id, 0))
        self._begin(timeout_ms, last_epoch, now_ms)

    def refresh(self, timeout_ms: int, now_ms: int) -> None:
        """Its producer asked again, as it did not see the answer: nothing is bumped."""
        self._become(self.producer)
        self._begin(timeout_ms, self.last_epoch, now_ms)

    def fence(self) -> None:
        """Take the epoch from its producer before the abort, as before KIP-890's second part."""
        producer_id, epoch = self.producer
        self.producer = ProducerIdentity(producer_id, min(epoch + 1, LARGEST_EPOCH))
        self.last_epoch = NO_EPOCH

    # Its transaction

    def add(self, partitions: Iterable[TopicPartitionKey], now_ms: int) -> None:
        """Partitions become part of the transaction, which begins if none is open."""
        self._become(self.producer)
        if self.state is not TransactionState.ONGOING:
            self.start_ms = now_ms
        self.state = TransactionState.ONGOING
        self.partitions.update(partitions)
        self.update_ms = now_ms

    def prepare(self, now_ms: int, *, committed: bool, bumps: bool, next_producer_id: int) -> None:
        """The transaction is decided; markers follow.

        Args:
            now_ms: The time.
            committed: How it ends.
            bumps: In a new epoch (KIP-890, part 2), which the markers carry.
            next_producer_id: Takes over afterwards, if no epoch is left; -1 for none.
        """
        producer_id, epoch = self.producer
        self._become(self.producer)
        if bumps:
            self.producer = ProducerIdentity(producer_id, min(epoch + 1, LARGEST_EPOCH))
            self.last_epoch = epoch
        if self.state is not TransactionState.ONGOING:
            self.start_ms = now_ms  # an abort without a transaction is one all the same
        self.state = (
            TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
        )
        self.next_producer_id = next_producer_id
        self.update_ms = now_ms
        self.bumps_epoch = bumps
        self.unmarked = set(self.partitions)

    def complete(self, now_ms: int) -> None:
        """Every partition has its marker."""
        self._become(self.producer)
        if self.bumps_epoch and self.next_producer_id >= 0:
            self.producer = ProducerIdentity(self.next_producer_id, 0)
        self.next_producer_id = NO_PRODUCER.producer_id
        committed = self.state is TransactionState.PREPARE_COMMIT
        self.state = (
            TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        )
        self.partitions.clear()
        self.update_ms = now_ms

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Nothing is open, and nobody has used the id for long."""
        idle = self.state is TransactionState.EMPTY or self.state.is_over
        return idle and now_ms - self.update_ms >= expiration_ms

    def __str__(self) -> str:
        return f"the transaction of {self.transactional_id!r}"

    # The journal

    def to_json(self) -> dict[str, Any]:
        """What outlives a restart."""
        return {
            "producer": list(self.producer),
            "last_epoch": self.last_epoch,
            "previous_producer_id": self.previous_producer_id,
            "next_producer_id": self.next_producer_id,
            "timeout_ms": self.timeout_ms,
            "state": self.state.value,
            "partitions": sorted(map(list, self.partitions)),
            "start_ms": self.start_ms,
            "update_ms": self.update_ms,
            "bumps_epoch": self.bumps_epoch,
        }

    @classmethod
    def from_json(cls, transactional_id: str, value: Mapping[str, Any]) -> Self:
        """The transaction that was noted; one that was ending marks all its partitions again."""
        transaction = cls(transactional_id, -1, value["timeout_ms"])
        transaction.producer = ProducerIdentity(*value["producer"])
        transaction.state = TransactionState(value["state"])
        transaction.partitions = {(topic, index) for topic, index in value["partitions"]}
        for name in (
            *("last_epoch", "previous_producer_id", "next_producer_id"),
            *("start_ms", "update_ms", "bumps_epoch"),
        ):
            setattr(transaction, name, value[name])
        if transaction.state.is_ending:
            transaction.unmarked = set(transaction.partitions)
        return transaction

    # Inside

    def _become(self, producer: ProducerIdentity) -> None:
        self.previous_producer_id = self.producer.producer_id
        self.producer = producer

    def _begin(self, timeout_ms: int, last_epoch: int, now_ms: int) -> None:
        self.last_epoch = last_epoch
        self.timeout_ms = timeout_ms
        self.state = TransactionState.EMPTY
        self.partitions.clear()
        self.start_ms = NO_TIME
        self.update_ms = now_ms
