"""What a partition remembers of its idempotent producers, so that a retry is not stored twice.

Source: KIP-98; Kafka's ``ProducerStateEntry`` and ``ProducerAppendInfo``: the last five batches of
each producer id are known by their sequences; a batch that is one of them is answered with its
old offset, and any other has to follow the last one without a gap.
"""

from collections import deque
from typing import Final, NamedTuple

from aiokafka_lite.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.batches import last_sequence

__all__ = ["AppendedBatch", "ProducerTable"]

BATCHES_REMEMBERED: Final = 5  # as many as a client may have in flight
LAST_SEQUENCE: Final = 0x7FFFFFFF


class AppendedBatch(NamedTuple):
    """A batch in the log, by its sequences."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp: int


class _Producer:
    """One producer id on one partition, in its newest epoch."""

    __slots__ = ("batches", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[AppendedBatch] = deque(maxlen=BATCHES_REMEMBERED)


class ProducerTable:
    """The idempotent producers of one partition, by producer id."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def find_duplicate(self, header: BatchHeader) -> AppendedBatch | None:
        """The remembered batch that ``header`` repeats, or None when it is a new one.

        Raises:
            InvalidProducerEpoch: a newer epoch of this producer id has written already.
            OutOfOrderSequenceNumber: records between the last batch and this one are missing.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None  # nothing is known (any more): every sequence is taken
        first, last = header.base_sequence, last_sequence(header)
        who = f"producer {header.producer_id}: {first} (incoming seq. number)"
        if header.producer_epoch == producer.epoch:
            for batch in producer.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
            expected = (producer.batches[-1].last_sequence + 1) & LAST_SEQUENCE
            if first != expected:
                raise OutOfOrderSequenceNumber(
                    f"out of order sequence number for {who}, {expected} was expected"
                )
        elif header.producer_epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"epoch {header.producer_epoch} of {who} is smaller than the last seen epoch"
                f" {producer.epoch}"
            )
        elif first != 0:
            raise OutOfOrderSequenceNumber(
                f"invalid sequence number for new epoch {header.producer_epoch} of {who}"
            )
        return None

    def on_append(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        """Remember a batch that went into the log."""
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = self._producers[header.producer_id] = _Producer(header.producer_epoch)
        producer.batches.append(
            AppendedBatch(header.base_sequence, last_sequence(header), base_offset, timestamp)
        )

    def forget(self, producer_id: int) -> None:
        """Expire one producer id, as a broker does after ``producer.id.expiration.ms``."""
        self._producers.pop(producer_id, None)
