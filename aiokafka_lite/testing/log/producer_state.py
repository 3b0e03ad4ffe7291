"""A partition's producer state, which prevents storing a retried batch twice.

The state holds the sequences of the last five batches of each producer id. A repeated batch gets
its old offset; any other batch must follow the last one without a gap. A transactional batch
needs a transaction that is open in this partition, or that the coordinator has verified (KIP-890).

Source: KIP-98; Kafka's `ProducerStateEntry`, `ProducerAppendInfo`, `VerificationStateEntry`
and `UnifiedLog.analyzeAndValidateProducerState`.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from aiokafka_lite.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.log.batch_checks import last_sequence
from aiokafka_lite.testing.log.open_transactions import EndMarker, OpenTransactions

__all__ = ["NO_SEQUENCE", "AppendedBatch", "Producer", "ProducerTable"]

BATCHES_REMEMBERED: Final = 5  # as many as a client may have in flight
LAST_SEQUENCE: Final = 0x7FFFFFFF
NO_SEQUENCE: Final = -1
EXPIRY_CHECK_MS: Final = 600_000  # producer.id.expiration.check.interval.ms
STRICT_MARKERS_SINCE: Final = 2  # transaction.version whose markers carry a new epoch


class AppendedBatch(NamedTuple):
    """The sequences and the offset of a batch in the log."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp: int

    @property
    def last_offset(self) -> int:
        """The offset of its last record."""
        return self.base_offset + ((self.last_sequence - self.first_sequence) & LAST_SEQUENCE)


class Producer:
    """The state of one producer id in one partition, in its newest epoch.

    Attributes:
        epoch: Epoch of its last batch or marker.
        batches: The last batches of this epoch.
        coordinator_epoch: Coordinator epoch of its last marker; -1 if there was none.
        last_timestamp: Timestamp of its last batch or marker, in ms.
    """

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[AppendedBatch] = deque(maxlen=BATCHES_REMEMBERED)
        self.coordinator_epoch = -1
        self.last_timestamp = -1

    @property
    def last_sequence(self) -> int:
        """The last sequence in this epoch; -1 if there was none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def move_to(self, epoch: int) -> None:
        """Enter a new epoch and drop the batches of the old one."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class _Verification(NamedTuple):
    """A verification in progress for a transaction without a batch in the log."""

    epoch: int
    lowest_sequence: int
    bumps_epoch: bool  # the producer bumps its epoch per transaction (KIP-890, part 2)


class ProducerTable:
    """The producers of one partition, by producer id.

    Attributes:
        transactions: The open and aborted transactions in this partition.
        next_check_ms: Time of the next `expire` check; every ten minutes, as in a broker, so that
            records with old timestamps do not expire their producers at once.
    """

    __slots__ = ("_producers", "_verifying", "next_check_ms", "transactions")

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self._verifying: dict[int, _Verification] = {}
        self.next_check_ms = 0
        self.transactions = OpenTransactions()

    def all(self) -> Mapping[int, Producer]:
        """Return every known producer, by its id."""
        return self._producers

    # Client writes

    def needs_verification(self, header: BatchHeader, *, bumps_epoch: bool) -> bool:
        """Return True if the coordinator must verify a transactional batch before the append.

        Args:
            header: The batch's header; the base sequence is -1 for a group's offsets.
            bumps_epoch: True if the producer bumps its epoch per transaction (KIP-890, part 2).

        Raises:
            InvalidProducerEpoch: A newer epoch of this producer id has written already.
        """
        producer_id, epoch = header.producer_id, header.producer_epoch
        producer = self._producers.get(producer_id)
        if producer is not None:
            if epoch < producer.epoch:
                raise _old_epoch(header, producer)
            if self._is_open(producer_id, producer, epoch):
                return False
        before = self._verifying.get(producer_id)
        lowest = header.base_sequence
        if before is not None:
            # As in a real broker, the first attempt determines the client's kind.
            bumps_epoch = before.bumps_epoch
            if before.epoch == epoch:
                lowest = min(lowest, before.lowest_sequence)
            elif before.epoch > epoch:
                epoch, lowest = before.epoch, before.lowest_sequence
        self._verifying[producer_id] = _Verification(epoch, lowest, bumps_epoch)
        return True

    def check(self, header: BatchHeader, *, verified: bool = False) -> AppendedBatch | None:
        """Check that a producer's batch follows its last one, or recognise a duplicate.

        Args:
            header: The batch's header; a base sequence of -1 (a group's offsets) is not checked.
            verified: True if the coordinator confirmed that the partition is in the transaction.

        Returns:
            The stored batch that this one duplicates, or None if it is new.

        Raises:
            InvalidProducerEpoch: A newer epoch of this producer id has written already.
            InvalidTxnState: No transaction is open here, or the batch is not part of the open one.
            OutOfOrderSequenceNumber: Records between the last batch and this one are missing.
        """
        producer = self._producers.get(header.producer_id)
        first, last = header.base_sequence, last_sequence(header)
        if producer is not None and header.producer_epoch == producer.epoch:
            for batch in producer.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
        if producer is not None and header.producer_epoch < producer.epoch:
            raise _old_epoch(header, producer)
        is_open = producer is not None and self._is_open(
            header.producer_id, producer, header.producer_epoch
        )
        if header.transactional and not is_open and not verified:
            raise InvalidTxnState("Record was not part of an ongoing transaction")
        if first != NO_SEQUENCE:
            self._check_sequence(header, producer)
        if not header.transactional and (
            self.transactions.first_offset(header.producer_id) is not None
        ):
            raise InvalidTxnState(
                f"producer {header.producer_id} has an open transaction without this batch"
            )
        return None

    def on_append(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        """Record a batch that was appended to the log."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = self._producers[header.producer_id] = Producer(header.producer_epoch)
        producer.move_to(header.producer_epoch)
        producer.last_timestamp = timestamp
        producer.batches.append(
            AppendedBatch(header.base_sequence, last_sequence(header), base_offset, timestamp)
        )
        if header.transactional:
            self._verifying.pop(header.producer_id, None)
            self.transactions.begin(header.producer_id, base_offset)

    # Coordinator writes

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Reject a marker of an old coordinator or an old producer epoch.

        Args:
            producer_id: The producer whose transaction it ends.
            epoch: The marker's producer epoch.
            coordinator_epoch: The coordinator's epoch.
            transaction_version: From 2 on, a marker has a new epoch that no batch has used.

        Raises:
            InvalidProducerEpoch: This producer id has a newer epoch.
            TransactionCoordinatorFenced: A newer coordinator has already written.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        strict = transaction_version >= STRICT_MARKERS_SINCE
        if epoch < producer.epoch or (
            # The same epoch again is a repeated marker, unless a transaction is open in it.
            strict
            and epoch == producer.epoch
            and self.transactions.first_offset(producer_id) is not None
        ):
            raise InvalidProducerEpoch(
                f"a marker of producer {producer_id} has epoch {epoch}, but the last one seen is"
                f" {producer.epoch}"
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"coordinator epoch {coordinator_epoch} of a marker of producer {producer_id} is"
                f" older than {producer.coordinator_epoch}"
            )

    def on_marker(
        self, producer_id: int, epoch: int, marker: EndMarker, offset: int, timestamp: int
    ) -> None:
        """Record a marker that was appended to the log."""
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(epoch)
        producer.move_to(epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = timestamp
        verification = self._verifying.get(producer_id)
        if verification is not None and not (
            # With an epoch per transaction, a marker's epoch is later than its batches': this one
            # ends a transaction before the one being verified.
            verification.bumps_epoch and verification.epoch == epoch
        ):
            del self._verifying[producer_id]
        self.transactions.end(producer_id, offset, committed=marker.committed)

    # Expiry

    def forget(self, producer_id: int) -> None:
        """Expire one producer id; an open transaction stays open."""
        if self.transactions.first_offset(producer_id) is None:
            self._producers.pop(producer_id, None)
            self._verifying.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Expire producer ids that have not written for `producer.id.expiration.ms`."""
        self.next_check_ms = now_ms + EXPIRY_CHECK_MS
        for producer_id, producer in list(self._producers.items()):
            if now_ms - producer.last_timestamp >= expiration_ms:
                self.forget(producer_id)

    def restore(self, batches: Iterable[memoryview]) -> None:
        """Rebuild the state from a log's batches after a restart or a truncation."""
        self._producers.clear()
        self._verifying.clear()
        self.transactions = OpenTransactions()
        for batch in batches:
            header = BatchHeader.read(batch)
            if header.producer_id < 0:
                continue
            if not header.control:
                self.on_append(header, header.base_offset, header.max_timestamp)
                continue
            from aiokafka_lite.testing.log.control_batches import read_marker  # rare

            marker = read_marker(batch)
            if marker is not None:
                self.on_marker(
                    header.producer_id,
                    header.producer_epoch,
                    marker,
                    header.base_offset,
                    header.max_timestamp,
                )

    # Internals

    def _is_open(self, producer_id: int, producer: Producer, epoch: int) -> bool:
        """Return True if a transaction of exactly this epoch is open here."""
        return epoch == producer.epoch and self.transactions.first_offset(producer_id) is not None

    def _check_sequence(self, header: BatchHeader, producer: Producer | None) -> None:
        first = header.base_sequence
        who = f"producer {header.producer_id}: {first} (incoming seq. number)"
        verification = self._verifying.get(header.producer_id)
        if verification is not None:
            if (
                verification.bumps_epoch
                and first != 0
                and (producer is None or not producer.batches)
            ):
                raise OutOfOrderSequenceNumber(
                    f"{who}, but each transaction starts with sequence 0"
                )
            if first > verification.lowest_sequence:
                raise OutOfOrderSequenceNumber(
                    f"{who}, {verification.lowest_sequence} (earliest seen sequence)"
                )
        if producer is None:
            return  # no state, or no longer: accept every sequence
        if header.producer_epoch != producer.epoch:
            if first != 0:
                raise OutOfOrderSequenceNumber(
                    f"invalid sequence number for new epoch {header.producer_epoch} of {who}"
                )
            return
        expected = (producer.last_sequence + 1) & LAST_SEQUENCE
        if first != expected:
            raise OutOfOrderSequenceNumber(
                f"out of order sequence number for {who}, {expected} was expected"
            )


def _old_epoch(header: BatchHeader, producer: Producer) -> InvalidProducerEpoch:
    return InvalidProducerEpoch(
        f"epoch {header.producer_epoch} of producer {header.producer_id} is smaller than the last"
        f" seen epoch {producer.epoch}"
    )
