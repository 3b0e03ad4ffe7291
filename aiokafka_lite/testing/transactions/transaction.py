"""One transactional id: its producer, its state, and the partitions of its open transaction.

This module contains only the state changes of one id; the coordinator checks the requests.

Source: Kafka's `TransactionMetadata`; changes are stored immediately, so none is pending.
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
"""(topic, partition); for a group, its partition of `__consumer_offsets`."""

NO_EPOCH: Final = -1
NO_TIME: Final = -1
LARGEST_EPOCH: Final = 0x7FFF


class ProducerIdentity(NamedTuple):
    """A producer id and epoch."""

    producer_id: int
    epoch: int

    @property
    def is_exhausted(self) -> bool:
        """True if no epoch is left; the largest one is reserved for fencing the producer."""
        return self.epoch >= LARGEST_EPOCH - 1


NO_PRODUCER: Final = ProducerIdentity(-1, NO_EPOCH)


class TransactionState(StrEnum):
    """The states of a transactional id, by Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"  # never visible: an expired id is removed immediately
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"  # never visible: the abort follows immediately

    @property
    def is_ending(self) -> bool:
        """True if the outcome is decided but not every partition has its marker."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_over(self) -> bool:
        """True if every partition has its marker."""
        return self in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class Transaction:
    """The state of one transactional id.

    Attributes:
        transactional_id: The transactional id.
        producer: The current producer.
        last_epoch: The previous epoch of a producer that may repeat its request; -1 if none.
        previous_producer_id: The producer id before the last change; -1 at first.
        next_producer_id: The producer id after the transaction; -1 if it stays the same.
        timeout_ms: The transaction timeout.
        state: The current state.
        partitions: The partitions of the open transaction.
        unmarked: The partitions without the marker that ends it.
        start_ms: Start of the transaction; -1 before the first one.
        update_ms: Time of the last use.
        bumps_epoch: True if the transaction ends in a new epoch (KIP-890, part 2).
        timer: Aborts the open transaction at its timeout, or repeats what a full disk kept out.
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
        """Start with the next epoch, which fences the old one.

        Args:
            timeout_ms: The timeout of later transactions.
            last_epoch: The old epoch if its own producer sent the request, else -1.
            now_ms: The current time.
        """
        self._become(ProducerIdentity(self.producer.producer_id, self.producer.epoch + 1))
        self._begin(timeout_ms, last_epoch, now_ms)

    def rotate(self, producer_id: int, timeout_ms: int, last_epoch: int, now_ms: int) -> None:
        """Start with another producer id, because the old one has no epochs left."""
        self._become(ProducerIdentity(producer_id, 0))
        self._begin(timeout_ms, last_epoch, now_ms)

    def refresh(self, timeout_ms: int, now_ms: int) -> None:
        """Handle a repeated request of the producer, which missed the response: keep the epoch."""
        self._become(self.producer)
        self._begin(timeout_ms, self.last_epoch, now_ms)

    def fence(self) -> None:
        """Bump the epoch before an abort, to fence the producer (before KIP-890, part 2)."""
        producer_id, epoch = self.producer
        self.producer = ProducerIdentity(producer_id, min(epoch + 1, LARGEST_EPOCH))
        self.last_epoch = NO_EPOCH

    # Its transaction

    def add(self, partitions: Iterable[TopicPartitionKey], now_ms: int) -> None:
        """Add partitions to the transaction; begin one if none is open."""
        self._become(self.producer)
        if self.state is not TransactionState.ONGOING:
            self.start_ms = now_ms
        self.state = TransactionState.ONGOING
        self.partitions.update(partitions)
        self.update_ms = now_ms

    def prepare(self, now_ms: int, *, committed: bool, bumps: bool, next_producer_id: int) -> None:
        """Decide the outcome of the transaction; markers follow.

        Args:
            now_ms: The current time.
            committed: True to commit, False to abort.
            bumps: True to end in a new epoch (KIP-890, part 2), which the markers contain.
            next_producer_id: The next producer id if no epochs are left, else -1.
        """
        producer_id, epoch = self.producer
        self._become(self.producer)
        if bumps:
            self.producer = ProducerIdentity(producer_id, min(epoch + 1, LARGEST_EPOCH))
            self.last_epoch = epoch
        if self.state is not TransactionState.ONGOING:
            self.start_ms = now_ms  # an abort without a transaction counts as one
        self.state = (
            TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
        )
        self.next_producer_id = next_producer_id
        self.update_ms = now_ms
        self.bumps_epoch = bumps
        self.unmarked = set(self.partitions)

    def complete(self, now_ms: int) -> None:
        """Complete the transaction: every partition has its marker."""
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
        """Return True if no transaction is open and the id has not been used for long."""
        idle = self.state is TransactionState.EMPTY or self.state.is_over
        return idle and now_ms - self.update_ms >= expiration_ms

    def __str__(self) -> str:
        return f"the transaction of {self.transactional_id!r}"

    # The journal

    def to_json(self) -> dict[str, Any]:
        """Return the persistent state."""
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
        """Return a stored transactional id."""
        transaction = cls(transactional_id, -1, value["timeout_ms"])
        transaction.restore(value)
        return transaction

    def restore(self, value: Mapping[str, Any]) -> None:
        """Return to a stored state; a transaction that was ending marks all partitions again."""
        self.producer = ProducerIdentity(*value["producer"])
        self.timeout_ms = value["timeout_ms"]
        self.state = TransactionState(value["state"])
        self.partitions = {(topic, index) for topic, index in value["partitions"]}
        for name in (
            *("last_epoch", "previous_producer_id", "next_producer_id"),
            *("start_ms", "update_ms", "bumps_epoch"),
        ):
            setattr(self, name, value[name])
        self.unmarked = set(self.partitions) if self.state.is_ending else set()

    # Internals

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
