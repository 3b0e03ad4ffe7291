"""Writes the markers that end a transaction, immediately or when its partitions accept them.

Source: Kafka's `TransactionMarkerChannelManager`.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from aiokafka_lite.errors import (
    GroupCoordinatorNotAvailableError,
    InvalidProducerEpoch,
    KafkaStorageError,
    NotEnoughReplicasError,
    TransactionCoordinatorFenced,
)
from aiokafka_lite.testing.clock import Clock
from aiokafka_lite.testing.coordinator_table import Coordinators, CoordinatorType, slot_of
from aiokafka_lite.testing.log.open_transactions import EndMarker
from aiokafka_lite.testing.storage.journal import Journal
from aiokafka_lite.testing.transactions.offsets_topic import OFFSETS_TOPIC, OffsetSlots
from aiokafka_lite.testing.transactions.transaction import (
    TopicPartitionKey,
    Transaction,
    TransactionState,
)
from aiokafka_lite.testing.watchers import Watchers

if TYPE_CHECKING:
    from aiokafka_lite.testing.topics import Partition

__all__ = ["Marking"]

KIND: Final = "coordinator-epoch"  # in the journal
NO_LEADER: Final = -1
# As on a real broker, if another coordinator has fenced a marker, the transaction stays in its
# ending state until the next change of coordinator.
_NOT_NOW: Final = (
    *(NotEnoughReplicasError, KafkaStorageError),
    *(InvalidProducerEpoch, TransactionCoordinatorFenced),
)


class Marking:
    """Writes markers into partitions.

    Args:
        clock: The clock.
        journal: Stores the coordinator epochs, because partitions fence markers with lower ones.
        coordinators: The coordinators; each change of broker starts a new coordinator epoch.
        partition_of: Returns a partition by topic and number, or None.
        offsets: The partitions of `__consumer_offsets`.
    """

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        coordinators: Coordinators,
        partition_of: "Callable[[str, int], Partition | None]",
        offsets: OffsetSlots,
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._coordinators = coordinators
        self._partition_of = partition_of
        self._offsets = offsets
        self._waiting: dict[str, _Once] = {}  # by transactional id
        # slot -> (node id, coordinator epoch); a restart starts new epochs
        self._epochs: dict[int, tuple[int, int]] = {
            int(slot): (NO_LEADER, int(value["epoch"])) for (slot,), value in journal.entries(KIND)
        }

    def mark(self, transaction: Transaction, on_done: Callable[[], None]) -> None:
        """Write the missing markers; the last one calls `on_done`, possibly later.

        A second call replaces a waiting one, so each marker is written once.
        """
        waiting = self._waiting.pop(transaction.transactional_id, None)
        if waiting is not None:
            waiting.cancel()
        committed = transaction.state is TransactionState.PREPARE_COMMIT
        marker = EndMarker(committed, self.coordinator_epoch(transaction.transactional_id))
        for key in sorted(transaction.unmarked):
            if self._is_marked(transaction, marker, key):
                transaction.unmarked.discard(key)
        if not transaction.unmarked:
            on_done()
            return
        changed = (self._watchers(key) for key in transaction.unmarked)
        self._waiting[transaction.transactional_id] = _Once(
            changed, lambda: self.mark(transaction, on_done)
        )

    def _is_marked(
        self, transaction: Transaction, marker: EndMarker, key: TopicPartitionKey
    ) -> bool:
        """Write one marker; return False if it is not possible now."""
        topic, index = key
        now_ms = self._clock.now_ms()
        version = 2 if transaction.bumps_epoch else 0
        try:
            if topic == OFFSETS_TOPIC:
                self._offsets.append_marker(index, transaction.producer, marker, version, now_ms)
                return True
            partition = self._partition_of(topic, index)
            if partition is None:
                return True  # it was deleted
            if partition.leader == NO_LEADER:
                return False
            partition.append_marker(*transaction.producer, marker, version, now_ms)
        except _NOT_NOW:
            return False
        return True

    def _watchers(self, key: TopicPartitionKey) -> Watchers:
        partition = self._partition_of(*key)
        return Watchers() if partition is None else partition.watchers

    def coordinator_epoch(self, transactional_id: str) -> int:
        """Return the coordinator epoch, which grows with each change of the coordinating broker.

        It counts from the first call on.
        """
        slot = slot_of(transactional_id)
        before, epoch = self._epochs.get(slot, (NO_LEADER, -1))
        try:
            node = self._coordinators.node_of(CoordinatorType.TRANSACTION, transactional_id)
        except GroupCoordinatorNotAvailableError:
            return max(epoch, 0)
        if node.node_id != before:
            epoch += 1
            self._journal.note(KIND, (slot,), {"epoch": epoch})
            self._epochs[slot] = (node.node_id, epoch)
        return epoch


class _Once:
    """Calls back once, at the first change of any of several objects."""

    def __init__(self, watched: Iterable[Watchers], callback: Callable[[], None]) -> None:
        self._watched = list(watched)
        self._callback = callback
        for watchers in self._watched:
            watchers.add(self._on_change)

    def cancel(self) -> bool:
        """Cancel the callback; return False if it was called or cancelled before."""
        watched, self._watched = self._watched, []
        for watchers in watched:
            watchers.remove(self._on_change)
        return bool(watched)

    def _on_change(self) -> None:
        if self.cancel():  # the same round of notifications may call twice
            self._callback()
