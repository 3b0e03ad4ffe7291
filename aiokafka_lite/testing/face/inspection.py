"""The part of `FakeCluster`'s face that reads and writes records without any client.

A test sets up what its code is to find, and looks at what its code has left, with nothing between
that could be wrong as well.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.face.face_base import Face
from aiokafka_lite.testing.topics import Partition

if TYPE_CHECKING:
    from aiokafka_lite.structs import ConsumerRecord, TopicPartition
    from aiokafka_lite.testing.face.group_view import GroupView

__all__ = ["Views"]

ALL_IN_SYNC: Final = -1  # acks=all
LARGEST_BATCH: Final = 2**31 - 1  # bytes; the topic's own limit is checked when it is appended


class Views(Face):
    """Records and committed offsets, as they are in the cluster."""

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        compression: Compression = Compression.NONE,
    ) -> int:
        """Append one record to a topic, as if some producer had.

        Args:
            topic: Its name; it has to be there.
            value: The record's value; None is a tombstone.
            key: The record's key.
            partition: Which; by default that of the key, as Java's producer chooses it, or 0.
            headers: Names and values.
            timestamp_ms: ms since the epoch; by default the cluster's now.
            compression: Codec of the batch.

        Returns:
            The record's offset.

        Raises:
            ValueError: There is no such topic or partition.
            BrokerResponseError: What a producer would be answered.
        """
        from aiokafka_lite.record.batch import BatchBuilder  # nobody who only starts pays for it
        from aiokafka_lite.record.murmur2 import murmur2

        if partition is None:
            count = len(self._topic(topic).partitions)
            partition = 0 if key is None else (murmur2(key) & 0x7FFFFFFF) % count
        found = self.partition(topic, partition)
        now_ms = self.state.clock.now_ms()
        builder = BatchBuilder(LARGEST_BATCH)
        builder.append(now_ms if timestamp_ms is None else timestamp_ms, key, value, headers)
        batch = memoryview(bytes(builder.seal(compression)))
        header = BatchHeader.read(batch)
        return self._in_loop(lambda: found.append(batch, header, ALL_IN_SYNC, now_ms).base_offset)

    def records(
        self, topic: str, partition: int | None = None, *, committed_only: bool = False
    ) -> "list[ConsumerRecord[bytes, bytes]]":
        """The records of a topic as they are now, partition by partition, in order of offset.

        Args:
            topic: Its name.
            partition: Only this one.
            committed_only: Leave out what `read_committed` consumers do not see: records of
                transactions that are open or were aborted.

        Raises:
            ValueError: There is no such topic or partition.
        """
        if partition is None:
            chosen = list(self._topic(topic).partitions)
        else:
            chosen = [self.partition(topic, partition)]
        return self._in_loop(
            lambda: [record for one in chosen for record in _records_of(one, committed_only)]
        )

    def committed(self, group: str) -> "dict[TopicPartition, int]":
        """The offsets that a group has committed; empty for one that there is not.

        Those of a transaction that is still open are not among them.
        """
        from aiokafka_lite.structs import TopicPartition

        def look() -> dict[TopicPartition, int]:
            found = self.state.groups.get(group)
            if found is None:
                return {}
            return {
                TopicPartition(topic, partition): committed.offset
                for (topic, partition), committed in found.offsets.all().items()
            }

        return self._in_loop(look)

    def group(self, group: str) -> "GroupView":
        """A group's state and what its members have been given.

        Raises:
            ValueError: There is no such group.
        """
        from aiokafka_lite.testing.face.group_view import view_of

        def look() -> "GroupView":
            found = self.state.groups.get(group)
            if found is None:
                there_are = ", ".join(sorted(one.group_id for one in self.state.groups.all()))
                raise ValueError(f"there is no group {group!r}; there are: {there_are or 'none'}")
            return view_of(found)

        return self._in_loop(look)


def _records_of(partition: Partition, committed_only: bool) -> "list[ConsumerRecord[bytes, bytes]]":
    from aiokafka_lite.record.record_set import RecordSet

    log = partition.log
    end = partition.last_stable_offset if committed_only else log.end_offset
    data = log.read(log.start_offset, LARGEST_BATCH, below=end)
    aborted = partition.aborted_between(log.start_offset, end) if committed_only else ()
    batches = RecordSet(
        bytes(data), partition.topic.name, partition.index, log.start_offset, aborted=aborted
    )
    records: list[ConsumerRecord[bytes, bytes]] = []
    while not batches.exhausted:
        records += batches.read(10_000)
    return [record for record in records if record.offset < end]
