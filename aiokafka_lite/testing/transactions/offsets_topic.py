"""The transactions' writes to `__consumer_offsets`: the offsets of groups.

The topic itself is not stored. Each of its partitions has only a producer state, so that offsets
are fenced and verified like records. The groups store the offsets.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Final, TypeAlias

from aiokafka_lite.record.header import TRANSACTIONAL, BatchHeader
from aiokafka_lite.testing.log.open_transactions import EndMarker
from aiokafka_lite.testing.log.producer_state import NO_SEQUENCE, ProducerTable
from aiokafka_lite.testing.transactions.transaction import ProducerIdentity

__all__ = ["OFFSETS_TOPIC", "EndOffsets", "OffsetSlots"]

OFFSETS_TOPIC: Final = "__consumer_offsets"
EndOffsets: TypeAlias = Callable[[int, int, bool], None]
"""Called with (partition of `__consumer_offsets`, producer id, committed) for each marker there."""

MAGIC: Final = 2


class OffsetSlots:
    """The partitions of `__consumer_offsets`, by number.

    Args:
        end_offsets: Commits or discards a producer's pending offsets.
    """

    def __init__(self, end_offsets: EndOffsets) -> None:
        self._end_offsets = end_offsets
        self._tables: defaultdict[int, ProducerTable] = defaultdict(ProducerTable)
        self._appended = 0  # used as the offset in every partition

    def needs_verification(self, slot: int, producer: ProducerIdentity, *, adds: bool) -> bool:
        """See `ProducerTable`; `adds`: the commit itself adds the group to the transaction."""
        return self._tables[slot].needs_verification(_header(producer, 0), bumps_epoch=adds)

    def append(self, slot: int, producer: ProducerIdentity, now_ms: int, *, verified: bool) -> None:
        """Record that a transaction commits offsets of a group in this partition.

        Raises:
            InvalidProducerEpoch, InvalidTxnState: See `ProducerTable.check`.
        """
        header = _header(producer, now_ms)
        self._tables[slot].check(header, verified=verified)
        self._tables[slot].on_append(header, self._appended, now_ms)
        self._appended += 1

    def append_marker(
        self,
        slot: int,
        producer: ProducerIdentity,
        marker: EndMarker,
        transaction_version: int,
        now_ms: int,
    ) -> None:
        """Complete a transaction: commit or discard its offsets.

        Raises:
            InvalidProducerEpoch, TransactionCoordinatorFenced: A newer epoch has written already.
        """
        table = self._tables[slot]
        table.check_marker(*producer, marker.coordinator_epoch, transaction_version)
        table.on_marker(*producer, marker, self._appended, now_ms)
        self._appended += 1
        self._end_offsets(slot, producer.producer_id, marker.committed)


def _header(producer: ProducerIdentity, now_ms: int) -> BatchHeader:
    """Return the header of a batch of offsets, which has no sequence."""
    return BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=TRANSACTIONAL,
        last_offset_delta=0,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=NO_SEQUENCE,
        record_count=1,
    )
