"""Splits a batch that is too large for the broker (KIP-126). Rare, so in plain Python."""

from collections.abc import Iterable

from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.structs import TopicPartition

__all__ = ["pieces"]

_AT_ONCE = 1000  # records decoded at a time


def pieces(
    builders: Iterable[BatchBuilder], topic_partition: TopicPartition, limit: int
) -> list[BatchBuilder]:
    """Copy the records of some builders, in order, into new ones of at most `limit` bytes each.

    A larger record gets its own builder. Sealed bytes of the old builders are no longer
    valid.
    """
    from aiokafka_lite.record.record_set import RecordSet  # only splitting reads records

    made = [BatchBuilder(limit)]
    for builder in builders:
        records = RecordSet(builder.seal(), *topic_partition, 0, check_crcs=False)
        while found := records.read(_AT_ONCE):
            for record in found:
                fields = (record.timestamp, record.key, record.value, record.headers)
                if made[-1].append(*fields) < 0:
                    made.append(BatchBuilder(limit))
                    made[-1].append(*fields)
    return made
