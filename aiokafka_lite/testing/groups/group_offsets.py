"""The offsets that a group committed: those in force, and those of transactions still open.

Kafka keeps them as records of one log and lets the later one win; `CommittedOffset.order` is the
place in that log. So what a transaction wrote before a plain commit does not replace it, however
late the transaction ends.
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
    """What is kept of a commit.

    Attributes:
        offset: The next one to read.
        leader_epoch: Of the record before; -1 if the client did not tell.
        metadata: The client's own words, never None.
        commit_ms: When, in ms since the epoch.
        expire_ms: When it goes by the wish of an old client (v2-v4); -1 for the broker's rule.
        order: Grows with every commit; set by `GroupOffsets`.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = 0
    expire_ms: int = -1
    order: int = -1

    def is_expired(self, now_ms: int, retention_ms: int, kept_since_ms: int | None) -> bool:
        """Whether it was kept long enough, since its commit or since another instant."""
        if self.expire_ms >= 0:
            return now_ms >= self.expire_ms
        since = self.commit_ms if kept_since_ms is None else kept_since_ms
        return now_ms - since >= retention_ms


def check_metadata(metadata: str | None, limit: int) -> str:
    """The client's words of a commit, "" for none.

    Args:
        metadata: As they came.
        limit: How many characters (UTF-16 units, as Java counts) they may be
            (`offset.metadata.max.bytes`).

    Raises:
        OffsetMetadataTooLargeError: More than that.
    """
    text = metadata or ""
    length = len(text.encode("utf-16-le", "surrogatepass")) // 2
    if length > limit:
        raise OffsetMetadataTooLargeError(f"metadata has {length} characters; the limit is {limit}")
    return text


class GroupOffsets:
    """Of one group; they outlive its members and its kind.

    Args:
        group_id: The group's.
        journal: Told of every change.
    """

    def __init__(self, group_id: str, journal: Journal) -> None:
        self.group_id = group_id
        self._journal = journal
        self._next_order = 0
        self._committed: dict[TopicPartitionKey, CommittedOffset] = {}
        self._pending: dict[int, dict[TopicPartitionKey, CommittedOffset]] = {}

    def commit(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Put an offset in force."""
        self._put((topic, partition), self._placed(committed))

    def find(self, topic: str, partition: int) -> CommittedOffset | None:
        """The offset in force."""
        return self._committed.get((topic, partition))

    def all(self) -> Mapping[TopicPartitionKey, CommittedOffset]:
        """Every offset in force."""
        return self._committed

    def delete(self, topic: str, partition: int) -> bool:
        """Forget a partition, its pending offsets too; False if nothing was in force."""
        for producer_id, pending in self._pending.items():
            if pending.pop((topic, partition), None) is not None:
                self._journal.note(KIND, (self.group_id, topic, partition, producer_id), None)
        if self._committed.pop((topic, partition), None) is None:
            return False
        self._journal.note(KIND, (self.group_id, topic, partition), None)
        return True

    def delete_topic(self, topic: str) -> None:
        """Forget every partition of a topic."""
        for key in self._partitions():
            if key[0] == topic:
                self.delete(*key)

    def clear(self) -> None:
        """Forget everything: the group is deleted."""
        for key in self._partitions():
            self.delete(*key)
        self._pending.clear()

    # Transactions

    def commit_pending(
        self, producer_id: int, topic: str, partition: int, committed: CommittedOffset
    ) -> None:
        """Keep an offset until the transaction of its producer ends."""
        placed = self._placed(committed)
        self._pending.setdefault(producer_id, {})[topic, partition] = placed
        self._journal.note(KIND, (self.group_id, topic, partition, producer_id), placed._asdict())

    def has_pending(self, topic: str, partition: int) -> bool:
        """Whether an open transaction may change the partition's offset (KIP-447)."""
        return any((topic, partition) in pending for pending in self._pending.values())

    def on_marker(self, producer_id: int, *, committed: bool) -> None:
        """A transaction ended: put its offsets in force, or forget them."""
        for key, offset in self._pending.pop(producer_id, {}).items():
            in_force = self._committed.get(key)
            if committed and (in_force is None or offset.order > in_force.order):
                self._put(key, offset)
            # Only now: after a crash between the two, the marker is repeated and finds it again.
            self._journal.note(KIND, (self.group_id, *key, producer_id), None)

    # Expiry

    def expire(
        self,
        now_ms: int,
        retention_ms: int,
        is_subscribed: Callable[[str], bool],
        kept_since_ms: int | None = None,
    ) -> bool:
        """Forget what nobody reads any more and was kept long enough.

        Args:
            now_ms: The time, in ms since the epoch.
            retention_ms: How long an offset is kept (`offsets.retention.minutes`).
            is_subscribed: Whether members read a topic, so that its offsets stay.
            kept_since_ms: Count from this instant; None: from each commit.

        Returns:
            Whether nothing is left, neither in force nor pending.
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
        """Take back what the journal remembers; `producer_id` -1: it is in force."""
        committed = CommittedOffset(**value)
        self._next_order = max(self._next_order, committed.order + 1)
        if producer_id < 0:
            self._committed[topic, partition] = committed
        else:
            self._pending.setdefault(producer_id, {})[topic, partition] = committed

    def _placed(self, committed: CommittedOffset) -> CommittedOffset:
        """A commit at the end of what would be the log."""
        self._next_order += 1
        return committed._replace(order=self._next_order - 1)

    def _put(self, key: TopicPartitionKey, committed: CommittedOffset) -> None:
        self._committed[key] = committed
        self._journal.note(KIND, (self.group_id, *key), committed._asdict())

    def _partitions(self) -> set[TopicPartitionKey]:
        """Every partition that has an offset, in force or pending."""
        return {key for table in (self._committed, *self._pending.values()) for key in table}
