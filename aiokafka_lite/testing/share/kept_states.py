"""What outlives the leader of a share partition (Kafka's `__share_group_state`). No I/O.

A leader stores each change of a record's state, but not acquisitions: under a new leader, records
that were acquired for the first time are new again. Starting offsets are stored with the next
change, so that they may be older than the leader's own.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from aiokafka_lite.errors import FencedStateEpochError
from aiokafka_lite.testing.share.in_flight_records import Delivery, InFlightBatch, RecordState
from aiokafka_lite.testing.storage.journal import Journal

__all__ = ["UNKNOWN_OFFSET", "KeptState", "KeptStates", "StateKey"]

UNKNOWN_OFFSET: Final = -1
JOURNAL_KIND: Final = "share"

StateKey = tuple[str, UUID, int]
"""Group id, topic id, partition number."""


class KeptState:
    """The stored state of one share partition.

    Attributes:
        state_epoch: Grows when an administrator sets the offset; an older one cannot be changed.
        start_offset: The start offset; `UNKNOWN_OFFSET` if `share.auto.offset.reset` decides.
        leader_epoch: The leader epoch that stored it last.
        completed: The number of records in a terminal state from the start offset on; -1 before the
            first change.
    """

    __slots__ = ("_records", "completed", "leader_epoch", "start_offset", "state_epoch")

    def __init__(self, state_epoch: int, start_offset: int) -> None:
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.leader_epoch = 0
        self.completed = -1
        self._records: dict[int, tuple[int, RecordState]] = {}  # offset -> delivery count, state

    def write(
        self,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        completed: int,
        changes: Iterable[tuple[int, int, Delivery]],
    ) -> None:
        """Store changes of states.

        Args:
            state_epoch: The epoch in which the leader read the state.
            leader_epoch: The leader's epoch.
            start_offset: The leader's start offset.
            completed: The number of records in a terminal state from there on.
            changes: First offset, last offset and state of each.

        Raises:
            FencedStateEpochError: The offset was set since the leader read the state.
        """
        if state_epoch < self.state_epoch:
            raise FencedStateEpochError(f"the state epoch is {self.state_epoch}, not {state_epoch}")
        if start_offset >= self.start_offset:
            same = start_offset == self.start_offset
            self.completed = max(completed, self.completed) if same else completed
            self.start_offset = start_offset
        self.leader_epoch = leader_epoch
        for first, last, delivery in changes:
            now = (delivery.count, delivery.state)
            for offset in range(max(first, self.start_offset), last + 1):
                self._records[offset] = max(now, self._records.get(offset, now))
        for offset in [one for one in self._records if one < self.start_offset]:
            del self._records[offset]

    def batches(self) -> list[InFlightBatch]:
        """Return the stored states, adjacent equal ones joined to one batch."""
        joined: list[InFlightBatch] = []
        for offset in sorted(self._records):
            count, state = self._records[offset]
            before = joined[-1] if joined else None
            if (
                before is not None
                and before.whole is not None
                and before.last + 1 == offset
                and (before.whole.count, before.whole.state) == (count, state)
            ):
                before.last = offset
            else:
                joined.append(InFlightBatch(offset, offset, Delivery(state, count)))
        return joined

    # The journal

    def as_json(self) -> dict[str, Any]:
        return {
            "epochs": [self.state_epoch, self.leader_epoch],
            "start": self.start_offset,
            "completed": self.completed,
            "records": [[offset, *kept] for offset, kept in self._records.items()],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "KeptState":
        state = cls(value["epochs"][0], value["start"])
        state.leader_epoch = value["epochs"][1]
        state.completed = value["completed"]
        state._records = {
            offset: (count, RecordState(kind)) for offset, count, kind in value["records"]
        }
        return state


class KeptStates:
    """The stored states of all share partitions of a cluster.

    Args:
        journal: Stores them across restarts.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._states: dict[StateKey, KeptState] = {
            (str(group), UUID(str(topic)), int(index)): KeptState.from_json(value)
            for (group, topic, index), value in journal.entries(JOURNAL_KIND)
        }

    def get(self, key: StateKey) -> KeptState | None:
        """Return the state of a share partition; None if it was never initialized."""
        return self._states.get(key)

    def initialize(self, key: StateKey, state_epoch: int, start_offset: int) -> None:
        """Store a new state, replacing an earlier one."""
        state = self._states[key] = KeptState(state_epoch, start_offset)
        if start_offset != UNKNOWN_OFFSET:
            state.completed = 0
        self.note(key)

    def note(self, key: StateKey) -> None:
        """Store a changed state in the journal."""
        group, topic_id, index = key
        self._journal.note(JOURNAL_KIND, (group, topic_id.hex, index), self._states[key].as_json())

    def of_group(self, group_id: str) -> dict[UUID, set[int]]:
        """Return the initialized partitions of a group by topic id."""
        found: dict[UUID, set[int]] = {}
        for group, topic_id, index in self._states:
            if group == group_id:
                found.setdefault(topic_id, set()).add(index)
        return found

    def forget(self, group_id: str | None = None, topic_id: UUID | None = None) -> None:
        """Delete the states of a group, of a topic, or of a topic in a group."""
        for key in list(self._states):
            if group_id in (None, key[0]) and topic_id in (None, key[1]):
                self._journal.note(JOURNAL_KIND, (key[0], key[1].hex, key[2]), None)
                del self._states[key]
