"""The part of `FakeCluster` that reads and writes records without a client.

A test can prepare input and check output without depending on the client under test.
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
    from aiokafka_lite.testing.face.share_group_view import ShareGroupView
    from aiokafka_lite.testing.groups.base_group import Group
    from aiokafka_lite.testing.telemetry.telemetry_instances import PushedMetrics

__all__ = ["Views"]

ALL_IN_SYNC: Final = -1  # acks=all
LARGEST_BATCH: Final = 2**31 - 1  # bytes; the append checks the topic's own limit


class Views(Face):
    """Direct access to the records and committed offsets in the cluster."""

    def pushed_metrics(self, client_id: str | None = None) -> "list[PushedMetrics]":
        """Return the metrics that clients pushed (KIP-714), in order; see `collect_metrics`.

        Args:
            client_id: Only those of the clients with this id.
        """
        pushes = self.state.telemetry.pushes
        return [each for each in pushes if client_id in (None, each.client_id)]

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
        """Append one record to a topic, as if a producer had sent it.

        Args:
            topic: Name of an existing topic.
            value: The record's value; None is a tombstone.
            key: The record's key.
            partition: By default the partition that Java's producer chooses for the key, or 0
                without a key.
            headers: Names and values.
            timestamp_ms: ms since the epoch; by default the cluster clock's current time.
            compression: Codec of the batch.

        Returns:
            The record's offset.

        Raises:
            ValueError: The topic or partition does not exist.
            BrokerResponseError: The error that a producer would receive.
        """
        from aiokafka_lite.record.batch import BatchBuilder  # keeps startup fast
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
        """Return the current records of a topic, ordered by partition, then offset.

        Args:
            topic: The topic's name.
            partition: Return only the records of this partition.
            committed_only: Omit records that `read_committed` consumers do not receive: those of
                open and aborted transactions.

        Raises:
            ValueError: The topic or partition does not exist.
        """
        if partition is None:
            chosen = list(self._topic(topic).partitions)
        else:
            chosen = [self.partition(topic, partition)]
        return self._in_loop(
            lambda: [record for one in chosen for record in _records_of(one, committed_only)]
        )

    def committed(self, group: str) -> "dict[TopicPartition, int]":
        """Return the committed offsets of a group; empty for an unknown group.

        Offsets of an open transaction are not included.
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
        """Return a group's state and its members' assignments.

        Raises:
            ValueError: The group does not exist.
        """
        from aiokafka_lite.testing.face.group_view import view_of

        return self._in_loop(lambda: view_of(self._group(group)))

    def share_group(self, group: str) -> "ShareGroupView":
        """Return the records that a share group has in flight (KIP-932).

        Raises:
            ValueError: The share group does not exist.
        """
        from aiokafka_lite.testing.face.share_group_view import share_view_of

        def look() -> "ShareGroupView":
            self._share_group(group)
            return share_view_of(self.state.share.records_of(group), self.state.topics_by_id)

        return self._in_loop(look)

    def dead_letters(self, group: str) -> "list[ConsumerRecord[bytes, bytes]]":
        """Return the dead letters of a share group, from its current dead-letter topic (KIP-1191).

        The headers `__dlq.errors.topic`, `.partition`, `.offset`, `.delivery.count` and `.message`
        of a letter describe the original record.

        Returns:
            The letters by partition, then offset; none if the group has no dead-letter topic, or
            the topic does not exist.

        Raises:
            ValueError: The share group does not exist.
        """
        from aiokafka_lite.testing.face.share_group_view import is_letter_of

        def find_topic() -> str | None:
            self._share_group(group)
            name = self.state.share.settings_of(group).dead_letter_topic
            return name if name in self.state.topics else None

        topic = self._in_loop(find_topic)
        if topic is None:
            return []
        return [record for record in self.records(topic) if is_letter_of(record, group)]

    def _share_group(self, group: str) -> None:
        found = self._group(group)
        if found.kind != "share":
            raise ValueError(f"group {group!r} is a {found.kind} group, not a share group")

    def _group(self, group: str) -> "Group":
        found = self.state.groups.get(group)
        if found is None:
            there_are = ", ".join(sorted(one.group_id for one in self.state.groups.all()))
            raise ValueError(
                f"group {group!r} does not exist; existing groups: {there_are or 'none'}"
            )
        return found


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
