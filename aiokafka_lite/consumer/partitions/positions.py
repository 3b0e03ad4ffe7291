"""The consumer's position in each assigned partition. Sans-IO: no socket, no future, no clock.

A `PartitionState` lives from the assignment of its partition to its loss. A seek, a reset or the
loss of the partition raises its `generation`: batches taken before can no longer be given back.
A fetch, a validation or a lookup stores the `fetch_generation`, which also rises when the log was
truncated. So a stale response is detected and never reaches the application.

If the position is out of range, `auto_offset_reset` chooses another. Once the new position is
known, it shows whether a batch in progress may still be given back. If it is below the old
position, the log lost its end and may still have the batch; if above, the log lost its beginning,
and the batch with it.

The position (next offset to deliver) and the fetch offset (next offset to fetch) differ only while
decoded records are being delivered: then the `Chunk` holds the former, and its end is the latter.

A position includes the leader epoch of the record before it (KIP-320). This costs nothing per
record: each record of a chunk has its epoch, and the record set returns that of the chunk's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Mapping
from typing import TypeAlias
from uuid import UUID

from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.consumer.partitions.fetch_source import NOWHERE, UNKNOWN_EPOCH, FetchSource
from aiokafka_lite.consumer.partitions.fetched_data import FetchedData
from aiokafka_lite.consumer.partitions.reset_policy import ResetPolicy
from aiokafka_lite.errors import IllegalStateError, KafkaError
from aiokafka_lite.structs import TopicPartition


class AtWork:
    """A batch in progress in a block of `batches`, or a record that is being deserialized.

    Attributes:
        first: Offset of its first record.
        generation: That of the position with which it may be given back: the one in which it was
            taken, or a later one if only records after it were given back since.
        offset: The highest offset to auto-commit meanwhile: the first record, or the offset that
            the application itself has committed since.
        epoch: Leader epoch of the record before that.
    """

    __slots__ = ("epoch", "first", "generation", "offset")

    def __init__(self, first: int, epoch: int, generation: int) -> None:
        self.first = self.offset = first
        self.epoch = epoch
        self.generation = generation


class PartitionState:
    """One assigned partition.

    Attributes:
        tp: The partition. Never changes.
        generation: Raised when the application or a commit chooses another position, when the
            reset policy chooses one after the old, and when the partition is lost.
        fetch_generation: Raised with `generation`, and when the log was truncated: responses to
            earlier requests are discarded.
        reset: The policy by which the position is being looked up, or None.
        resumes: True if the position to look up is the group's committed offset: the application
            has not sought, and no commit was found missing. Meaningless without a group.
        paused: True if the partition is paused.
        error: The error that the next read of this partition raises, or None. Written by `fail`.
        error_stays: True if that error is raised until the application seeks, False if it is raised
        once.
        leader: Node id of the last reported leader, or NOWHERE. Written by `follow`.
        leader_epoch: Epoch of that leader, -1 unknown. Written by `follow`.
        topic_id: Id of the topic whose log the position refers to, or None. Written by `follow`.
        rival_id: Another id that metadata has for the topic now, or None: either the topic was
            recreated, or the broker that responded lags behind. Ids have no order; the leader
            decides which one is current. Written by `follow`.
        unvalidated: True if the leader must confirm, before the next fetch, that its log is still
            the one that was read (KIP-320).
        remade: True if it is known not to be that log: the topic was recreated. The buffered
            records of the old topic are delivered first.
        until: Offset from which it is no longer fetched, or None. Owner: the reader of a range.
        waits_for_chunk: True if it is fetched again only once its chunk is delivered: the offset
            after the chunk is out of range.
        at_work: Of the batches in progress in blocks of `batches` and the records that are being
            deserialized, the one that limits the auto-commit, or None. Blocks receive no records
            meanwhile. Written by `begin_work` and `end_work`.
        source: Where it is fetched from. Owner: the fetcher.
        fetched: Its buffered data. Owner: the buffer.
    """

    __slots__ = (
        "_epoch",
        "_position",
        "_reset_from",
        "_works",
        "at_work",
        "error",
        "error_stays",
        "fetch_generation",
        "fetched",
        "generation",
        "leader",
        "leader_epoch",
        "paused",
        "remade",
        "reset",
        "resumes",
        "rival_id",
        "source",
        "topic_id",
        "tp",
        "until",
        "unvalidated",
        "waits_for_chunk",
    )

    def __init__(self, tp: TopicPartition, reset: ResetPolicy, fetch_bytes: int) -> None:
        self.tp = tp
        self.generation = 0
        self.fetch_generation = 0
        self.reset: ResetPolicy | None = reset
        self.resumes = True
        self.paused = False
        self.error: Exception | None = None
        self.error_stays = False
        self.leader = NOWHERE
        self.leader_epoch = UNKNOWN_EPOCH
        self.topic_id: UUID | None = None
        self.rival_id: UUID | None = None
        self.unvalidated = False
        self.remade = False
        self.until: int | None = None
        self.waits_for_chunk = False
        self.at_work: AtWork | None = None
        self._works: list[AtWork] = []  # all; those of earlier generations no longer count
        self.source = FetchSource(fetch_bytes)
        self.fetched = FetchedData()
        self._position: int | None = None
        self._epoch = UNKNOWN_EPOCH  # of the record before `_position`
        self._reset_from: int | None = None  # the offset that `reset_by_policy` gave up

    def __str__(self) -> str:
        """Return the partition as log lines and errors name it."""
        return f"{self.tp.topic}-{self.tp.partition}"

    @property
    def position(self) -> int | None:
        """Offset of the next record to deliver; None while it is being looked up."""
        return self._position if self.fetched.chunk is None else self.fetched.chunk.position

    @property
    def position_epoch(self) -> int:
        """Leader epoch of the record before `position`, or UNKNOWN_EPOCH; part of a commit."""
        chunk = self.fetched.chunk
        if chunk is None:
            return self._epoch
        if chunk.index == chunk.count:
            return self.fetched.chunk_epoch
        return self._epoch if chunk.index == 0 else chunk.records[chunk.index - 1].leader_epoch

    def standing(self) -> tuple[int | None, int]:
        """`position` and `position_epoch` together, for commits of thousands of partitions."""
        if self.fetched.chunk is None:
            return self._position, self._epoch
        return self.fetched.chunk.position, self.position_epoch

    @property
    def fetch_epoch(self) -> int:
        """Leader epoch of the record before `fetch_offset`, or UNKNOWN_EPOCH."""
        return self._epoch if self.fetched.chunk is None else self.fetched.chunk_epoch

    @property
    def fetch_offset(self) -> int | None:
        """Offset of the next record to fetch; None while it is being looked up."""
        return self._position if self.fetched.chunk is None else self.fetched.chunk.end

    @property
    def fetchable(self) -> bool:
        """True if the partition may be fetched: only if it has no undecoded records."""
        offset = self.fetch_offset
        return (
            self.fetched.records is None
            and not self.paused
            and self.error is None
            and not self.waits_for_chunk
            and not self.unvalidated
            and offset is not None
            and (self.until is None or offset < self.until)
        )

    def seek(self, offset: int, epoch: int = UNKNOWN_EPOCH) -> None:
        """Set the position. The buffer must have discarded the old records before.

        Args:
            epoch: Leader epoch of the record before it, if known.
        """
        self.generation += 1
        self.at_work = None
        self.remade = False
        if self.rival_id is not None:
            self.topic_id = None  # the position applies to whichever of the two ids is current
        self._stand(offset, epoch)

    def give_back(self, offset: int, epoch: int) -> None:
        """Return to the first record of a batch, which must be read again. The buffer must have
        discarded the old records before.

        Unlike after a seek, the position refers to the topic that was read: if that topic turns out
        to be deleted, the offset is not valid in the recreated one.

        Args:
            epoch: Leader epoch of the record before it, if known.
        """
        before = self.generation
        self.generation += 1
        for work in self._works:
            # What follows is read again anyway. What comes before must not be skipped.
            if work.generation == before and work.first < offset:
                work.generation = self.generation
        self._choose_work()
        self._stand(offset, epoch)

    def return_to(self, offset: int, epoch: int) -> None:
        """Return to `offset`, not past the position, because the log was truncated after it. The
        buffer must have discarded the old records before.

        Unlike after a seek, a batch that was taken before may still be given back, and is not
        auto-committed while a block processes it.

        Args:
            epoch: Leader epoch of the record before it, if known.
        """
        for work in self._current_works():
            if offset < work.offset:
                work.offset, work.epoch = offset, epoch
        self._stand(offset, epoch)

    def begin_work(self, first: int, epoch: int) -> AtWork:
        """Keep records that were just taken from being auto-committed until `end_work`.

        Args:
            first: Offset of the first one.
            epoch: Leader epoch of the record before it, if known.
        """
        work = AtWork(first, epoch, self.generation)
        self._works.append(work)
        self._choose_work()
        return work

    def end_work(self, work: AtWork) -> None:
        """The records were processed, or given back."""
        self._works.remove(work)
        self._choose_work()

    def on_work_committed(self, offset: int, epoch: int) -> None:
        """The application itself commits this offset, during its work or after it.

        Args:
            epoch: Leader epoch of the record before it, or UNKNOWN_EPOCH.
        """
        for work in self._current_works():
            if offset > work.offset:
                work.offset, work.epoch = offset, epoch

    def _current_works(self) -> list[AtWork]:
        return [work for work in self._works if work.generation == self.generation]

    def _choose_work(self) -> None:
        self.at_work = min(self._current_works(), key=lambda work: work.offset, default=None)

    def _stand(self, offset: int, epoch: int) -> None:
        self.fetch_generation += 1
        self.reset = None
        self._reset_from = None
        self.resumes = False
        self.error = None
        self.waits_for_chunk = False
        self._position = offset
        self._epoch = epoch
        has_epochs = epoch >= 0 and self.leader_epoch >= 0
        self.unvalidated = self.remade or self.rival_id is not None or has_epochs

    def ask_reset(self, policy: ResetPolicy) -> None:
        """Request a lookup by `policy`. The buffer must have discarded the old records before."""
        self._outdate()
        self._look_up(policy, None)

    def reset_by_policy(self, policy: ResetPolicy, offset: int | None) -> None:
        """Request a lookup by `policy`, because the log does not have the position.

        A batch that was taken before may be given back, and is not auto-committed, until the lookup
        shows that the log does not have it either; a recreated topic never has it.

        Args:
            policy: The consumer's `auto_offset_reset`.
            offset: The position that the log does not have; None if unknown.
        """
        if self.remade or self.rival_id is not None or offset is None:
            self.ask_reset(policy)
        else:
            self._look_up(policy, offset)

    def continue_reset(self, policy: ResetPolicy) -> None:
        """Continue the lookup with another request, after the first did not find the position."""
        self.fetch_generation += 1
        self.reset = policy

    def resolve(
        self, offset: int, epoch: int = UNKNOWN_EPOCH, asked_epoch: int = UNKNOWN_EPOCH
    ) -> None:
        """Set the position that a lookup found.

        Args:
            epoch: Leader epoch of the record before it, if known. The epoch of the record at the
                offset, or of the leader at the end of its log, may be later, but is equally valid:
                both epochs end after the offset, unless the log was truncated since.
            asked_epoch: Epoch of the leader that returned the offset, if it was a leader. That
                leader does not need to validate its own answer.
        """
        before = self._reset_from
        if before is not None and offset < before:
            self.return_to(offset, epoch)
        else:
            self.seek(offset, epoch)
        if asked_epoch >= 0 and asked_epoch == self.leader_epoch:
            self.unvalidated = self.remade or self.rival_id is not None

    def _look_up(self, policy: ResetPolicy, offset: int | None) -> None:
        self.fetch_generation += 1
        self.reset = policy
        self._reset_from = offset
        self.resumes = False
        self.error = None
        self.waits_for_chunk = False
        self._position = None
        self._epoch = UNKNOWN_EPOCH
        self.remade = False
        self.unvalidated = False
        if self.rival_id is not None:
            self.topic_id = self.rival_id = None  # the lookup determines the current topic

    def on_lost(self) -> None:
        """The partition is no longer assigned."""
        self._outdate()

    def _outdate(self) -> None:
        """End the claim of earlier batches, and discard the responses to earlier requests."""
        self.generation += 1
        self.fetch_generation += 1
        self.at_work = None
        self._reset_from = None

    def follow(self, metadata: Metadata) -> None:
        """Record the leader and the topic id of newer metadata. A change of either may invalidate
        the position; without a leader nothing changes (as in Java), because only it can validate.
        """
        topic = metadata.topics.get(self.tp.topic)
        if topic is None:
            return
        if topic.topic_id is not None:
            self._on_topic_id(topic.topic_id)
        if self.rival_id is not None:
            return  # the reported leader may be that of a deleted topic
        known = topic.partitions.get(self.tp.partition)
        if known is not None and known.leader in metadata.brokers:
            self._on_leader(known.leader, known.leader_epoch)

    def _on_topic_id(self, reported: UUID) -> None:
        if reported == self.topic_id:
            self.rival_id = None  # if it was set, the position is validated once more
        elif self.fetch_offset is None:
            if self.topic_id is not None:
                self._outdate()  # the answer under way may be about the old topic
            self.topic_id = reported
        elif self.topic_id is None and self.rival_id is None:
            self.topic_id = reported
        else:
            self.rival_id = reported
            self.unvalidated = True

    def on_rival_confirmed(self) -> None:
        """The leader confirmed the rival id: the topic was recreated."""
        before, self.topic_id, self.rival_id = self.topic_id, self.rival_id, None
        if before is not None:
            self._on_remade()

    def _on_remade(self) -> None:
        if self.fetch_offset is None:
            self._outdate()  # the answer under way may be about the old topic
        else:
            self.remade = True
            self.unvalidated = True

    def _on_leader(self, leader: int, epoch: int) -> None:
        if (leader, epoch) == (self.leader, self.leader_epoch):
            return
        self.leader = leader
        self.leader_epoch = epoch
        self.source.on_new_leader()
        # Undecoded records may have an epoch even if the decoded records have none.
        self.unvalidated = self.remade or (
            epoch >= 0
            and self.fetch_offset is not None
            and (self.fetch_epoch >= 0 or self.fetched.records is not None)
        )

    def on_chunk_done(self) -> None:
        """The chunk was delivered completely."""
        end = self.fetched.take_end()
        if end is not None:
            self._position, self._epoch = end

    def fail(self, error: Exception, *, stays: bool) -> None:
        """Let reads raise `error` until a seek if it `stays`, otherwise once."""
        self.error = error
        self.error_stays = stays


class Positions:
    """The states of the assigned partitions, by partition.

    Args:
        reset: The policy for partitions that have no position yet.
        fetch_bytes: Bytes of one partition to request in a fetch.
    """

    def __init__(self, reset: ResetPolicy, fetch_bytes: int) -> None:
        self._reset = reset
        self._fetch_bytes = fetch_bytes
        self._states: dict[TopicPartition, PartitionState] = {}
        self._by_topic: dict[str, dict[int, PartitionState]] = {}
        self.unsettled: dict[PartitionState, None] = {}
        """The partitions to place with any metadata, even if it does not change them: those
        fetched from no broker or from a follower, and those with an uncertain topic id."""

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, tp: object) -> bool:
        return tp in self._states

    def get(self, tp: TopicPartition) -> PartitionState | None:
        """Return the state of a partition, or None if it is not assigned."""
        return self._states.get(tp)

    def state(self, tp: TopicPartition) -> PartitionState:
        """Return the state of a partition.

        Raises:
            IllegalStateError: The partition is not assigned.
        """
        state = self._states.get(tp)
        if state is None:
            raise IllegalStateError(f"Partition {tp} is not assigned")
        return state

    def is_current(self, state: PartitionState, generation: int) -> bool:
        """True if `state` is still assigned and its position was not changed since `generation`."""
        return state.generation == generation and self._states.get(state.tp) is state

    def awaits_answer(self, state: PartitionState, fetch_generation: int) -> bool:
        """True if a response to a request made in `fetch_generation` still applies to `state`."""
        return state.fetch_generation == fetch_generation and self._states.get(state.tp) is state

    def partitions(self) -> set[TopicPartition]:
        """Return a new set of the assigned partitions."""
        return set(self._states)

    @property
    def assigned(self) -> KeysView[TopicPartition]:
        """The assigned partitions; changes with the assignment."""
        return self._states.keys()

    @property
    def by_topic(self) -> Mapping[str, Mapping[int, PartitionState]]:
        """The states by topic and partition number; no topic is empty."""
        return self._by_topic

    def assign(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[list[PartitionState], list[PartitionState]]:
        """Replace the assignment. Partitions that stay keep their position, as in Java.

        Returns:
            The added and the removed states (responses for the latter no longer apply).
        """
        wanted = dict.fromkeys(partitions)
        gone = [state for tp, state in self._states.items() if tp not in wanted]
        for state in gone:
            topic, partition = state.tp
            del self._states[state.tp]
            del self._by_topic[topic][partition]
            if not self._by_topic[topic]:
                del self._by_topic[topic]
            self.unsettled.pop(state, None)
            state.on_lost()
        return self.extend(wanted), gone

    def extend(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Add partitions to the assignment.

        Returns:
            The added states.
        """
        came = []
        for tp in partitions:
            if tp not in self._states:
                state = PartitionState(tp, self._reset, self._fetch_bytes)
                self._states[tp] = state
                self._by_topic.setdefault(tp.topic, {})[tp.partition] = state
                self.unsettled[state] = None
                came.append(state)
        return came

    def without_position(self) -> list[PartitionState]:
        """Return the partitions that need a position lookup (after a failed lookup, only once a
        read has raised its error)."""
        return [
            state
            for state in self._states.values()
            if state.reset is not None and state.error is None
        ]


def error_of(state: PartitionState) -> Exception:
    """Return the error that a read of `state` raises, and clear it unless it stays."""
    error = state.error
    if error is None:
        raise KafkaError(f"{state} has no error to raise")
    if not state.error_stays:
        state.error = None
    return error


Ends: TypeAlias = tuple[PartitionState, bool, int | None, float]
"""A partition; True if its first offset is current; the offset after the last record that the
application may read, None if that is not known or outdated; seconds since a fetch or a lookup
reported that offset, infinite if neither did or if the broker is unreachable."""
