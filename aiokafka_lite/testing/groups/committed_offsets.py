"""The committed offsets of a group, including pending ones of open transactions.

Kafka stores them as records in a log, where the later one wins; `CommittedOffset.order` is the
position in that log. So a transaction's offset does not replace a later plain commit, even if the
transaction ends after it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from aiokafka_lite.errors import OffsetMetadataTooLargeError
from aiokafka_lite.testing.storage.journal import Journal

__all__ = ["CommittedOffset", "GroupOffsets", "TopicPartitionKey", "check_metadata"]

TopicPartitionKey: TypeAlias = tuple[str, int]
"""(topic, partition)"""

KIND: Final = "offset"  # in the journal


class CommittedOffset(NamedTuple):
    """A committed offset.

    Attributes:
        offset: The next offset to read.
        leader_epoch: Leader epoch of the last consumed record; -1 if unknown.
        metadata: The client's metadata; never None.
        commit_ms: Time of the commit, in ms since the epoch.
        expire_ms: Expiry requested by an old client (v2-v4); -1 for the broker's retention.
        order: Grows with every commit; set by `GroupOffsets`.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = 0
    expire_ms: int = -1
    order: int = -1

    def is_expired(self, now_ms: int, retention_ms: int, kept_since_ms: int | None) -> bool:
        """Return True if its retention has expired, counted from its commit or another time."""
        if self.expire_ms >= 0:
            return now_ms >= self.expire_ms
        since = self.commit_ms if kept_since_ms is None else kept_since_ms
        return now_ms - since >= retention_ms


def check_metadata(metadata: str | None, limit: int) -> str:
    """Check the metadata of a commit; return "" if there is none.

    Args:
        metadata: The metadata in the request.
        limit: Maximum length in UTF-16 units, as Java counts characters
            (`offset.metadata.max.bytes`).

    Raises:
        OffsetMetadataTooLargeError: The metadata is longer.
    """
    text = metadata or ""
    length = len(text.encode("utf-16-le", "surrogatepass")) // 2
    if length > limit:
        raise OffsetMetadataTooLargeError(f"metadata has {length} characters; the limit is {limit}")
    return text


class GroupOffsets:
    """The offsets of one group, which outlive its members and changes of its kind.

    Args:
        group_id: The group id.
        journal: Stores every change.
    """

    def __init__(self, group_id: str, journal: Journal) -> None:
        self.group_id = group_id
        self._journal = journal
        self._next_order = 0
        self._committed: dict[TopicPartitionKey, CommittedOffset] = {}
        self._pending: dict[int, dict[TopicPartitionKey, CommittedOffset]] = {}

    def commit(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Store a committed offset."""
        self._put((topic, partition), self._placed(committed))

    def find(self, topic: str, partition: int) -> CommittedOffset | None:
        """Return the committed offset of a partition, or None."""
        return self._committed.get((topic, partition))

    def all(self) -> Mapping[TopicPartitionKey, CommittedOffset]:
        """Return every committed offset."""
        return self._committed

    def delete(self, topic: str, partition: int) -> bool:
        """Delete a partition's offsets, also pending ones; return False if none was committed."""
        for producer_id, pending in self._pending.items():
            if (topic, partition) in pending:
                self._journal.note(KIND, (self.group_id, topic, partition, producer_id), None)
                del pending[topic, partition]
        if (topic, partition) not in self._committed:
            return False
        self._journal.note(KIND, (self.group_id, topic, partition), None)
        del self._committed[topic, partition]
        return True

    def delete_topic(self, topic: str) -> None:
        """Delete the offsets of a topic."""
        for key in self._partitions():
            if key[0] == topic:
                self.delete(*key)

    def clear(self) -> None:
        """Delete all offsets with their group."""
        for key in self._partitions():
            self.delete(*key)
        self._pending.clear()

    # Transactions

    def commit_pending(
        self, producer_id: int, topic: str, partition: int, committed: CommittedOffset
    ) -> None:
        """Store an offset until the transaction of its producer ends."""
        placed = self._placed(committed)
        self._pending.setdefault(producer_id, {})[topic, partition] = placed
        self._journal.note(KIND, (self.group_id, topic, partition, producer_id), placed._asdict())

    def has_pending(self, topic: str, partition: int) -> bool:
        """Return True if an open transaction may change the partition's offset (KIP-447)."""
        return any((topic, partition) in pending for pending in self._pending.values())

    def on_marker(self, producer_id: int, *, committed: bool) -> None:
        """Commit or discard the pending offsets of a completed transaction."""
        pending = self._pending.get(producer_id, {})
        for key, offset in list(pending.items()):
            in_force = self._committed.get(key)
            if committed and (in_force is None or offset.order > in_force.order):
                self._put(key, offset)
            # Last: after a crash or a full disk, the repeated marker finds it again.
            self._journal.note(KIND, (self.group_id, *key, producer_id), None)
            del pending[key]
        self._pending.pop(producer_id, None)

    # Expiry

    def expire(
        self,
        now_ms: int,
        retention_ms: int,
        is_subscribed: Callable[[str], bool],
        kept_since_ms: int | None = None,
    ) -> bool:
        """Delete expired offsets of topics without subscribers.

        Args:
            now_ms: The current time, in ms since the epoch.
            retention_ms: The retention time (`offsets.retention.minutes`).
            is_subscribed: Returns True if members read a topic, which keeps its offsets.
            kept_since_ms: Start of the retention time; None for the time of each commit.

        Returns:
            True if no committed or pending offset is left.
        """
        for key, committed in list(self._committed.items()):
            if (
                not is_subscribed(key[0])
                and committed.is_expired(now_ms, retention_ms, kept_since_ms)
                and not self.has_pending(*key)
            ):
                self.delete(*key)
        return not self._committed and not self._pending

    # The journal

    def restore(
        self, topic: str, partition: int, producer_id: int, value: Mapping[str, Any]
    ) -> None:
        """Restore an offset from the journal; producer id -1 means that it is committed."""
        committed = CommittedOffset(**value)
        self._next_order = max(self._next_order, committed.order + 1)
        if producer_id < 0:
            self._committed[topic, partition] = committed
        else:
            self._pending.setdefault(producer_id, {})[topic, partition] = committed

    def _placed(self, committed: CommittedOffset) -> CommittedOffset:
        """Return a commit with the next order."""
        self._next_order += 1
        return committed._replace(order=self._next_order - 1)

    def _put(self, key: TopicPartitionKey, committed: CommittedOffset) -> None:
        self._journal.note(KIND, (self.group_id, *key), committed._asdict())
        self._committed[key] = committed  # not before: a repeated marker must store it

    def _partitions(self) -> set[TopicPartitionKey]:
        """Return every partition with a committed or pending offset."""
        return {key for table in (self._committed, *self._pending.values()) for key in table}
