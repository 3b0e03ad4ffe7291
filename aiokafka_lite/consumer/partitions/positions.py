"""Where the consumer stands in each assigned partition. Sans-IO: no socket, no future, no clock.

A `PartitionState` lives from the assignment of its partition to its loss. A seek, a reset or the
loss of the partition raises its `generation`: records taken before it are not given back after it.
A fetch or a validation keeps the `fetch_generation`, which also rises when the log was cut: so a
stale answer is recognized and never reaches the application.

The position (next offset to hand out) and the fetch offset (next offset to ask for) differ only
while decoded records are being handed out: then the `Chunk` knows the first, and its end is the
second.

A position knows the leader epoch of the record before it (KIP-320). It costs nothing a record: the
chunk's records know theirs, its end is told by the record set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.consumer.partitions.delivery import Chunk
from aiokafka_lite.consumer.partitions.reset_policy import ResetPolicy
from aiokafka_lite.consumer.partitions.response_body import ResponseBody
from aiokafka_lite.errors import IllegalStateError, KafkaError
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.structs import TopicPartition

NOWHERE = -1
"""No node: the partition has no leader that is known."""

UNKNOWN_EPOCH = -1
"""No leader epoch: none is known, or the broker tells none."""


class AtWork:
    """A batch that a block of `batches` is at work on.

    Attributes:
        offset: How far its partition may be committed meanwhile: up to the batch's first record,
            or to what the application has committed of it itself.
        epoch: Leader epoch of the record before that.
    """

    __slots__ = ("epoch", "offset")

    def __init__(self, offset: int, epoch: int) -> None:
        self.offset = offset
        self.epoch = epoch


class PartitionState:
    """One assigned partition.

    Attributes:
        tp: Which partition. Never changes.
        generation: Raised when the application, a commit or the reset policy chooses another
            position, and when the partition is lost.
        fetch_generation: Raised with `generation`, and when the log was cut: answers to what was
            asked of a broker before no longer count.
        reset: The policy by which a position is being looked up, or None.
        resumes: Whether the position to be looked up is the one that the group has committed:
            nobody sought yet, and no commit was found missing. Without a group it says nothing.
        paused: Whether the application does not want its records now.
        error: What the next read of this partition raises, or None. Written by `fail`.
        error_stays: Whether that error is raised until the application seeks (else once).
        highwater: Offset after the newest replicated record, or None before the first answer.
        last_stable_offset: End of what read_committed may see; -1 in read_uncommitted; None before
            the first answer and with brokers before 0.11.
        log_start_offset: First offset that the broker has, or None where it is not told.
        polled_at: Milliseconds since the epoch of the last answer to a fetch, or None.
        leader: Node id of the leader last told, or NOWHERE. Written by `follow`.
        leader_epoch: Epoch of that leadership, -1 unknown. Written by `follow`.
        topic_id: Id of the topic whose log the position refers to, or None. Written by `follow`.
        rival_id: Another id that metadata has for the topic now, or None: either the topic was
            made again, or the broker that answered lags behind. Ids have no order; the leader
            is asked which one it is. Written by `follow`.
        unvalidated: Whether the leader has to be asked, before the next fetch, if its log still
            is the one that was read (KIP-320).
        remade: Whether it is known not to be: the topic was made again. What is buffered of the
            old one is handed out first.
        node: The broker it is fetched from, or NOWHERE. Written by the fetcher.
        replica: A follower to fetch from until `replica_until` (KIP-392), or NOWHERE.
        leader_until: Monotonic instant before which it is fetched from the leader in any case: the
            follower has failed.
        refused_epoch: The leader epoch that a broker did not know when last it said so, or -1.
        retry_at: Monotonic instant before which it is not asked for again. Owner: the fetcher.
        fetch_bytes: How much of it to ask for; grows where an old broker has a larger record.
        until: Offset from which on it is not asked for any more, or None. Owner: who reads a range.
        waits_for_chunk: Whether it is asked for again only when its chunk was handed out: the
            offset behind that one is out of range.
        at_work: The batch that a block of `batches` has in work, or None. Set by that block, which
            clears only its own.
        chunk: Decoded records being handed out, or None. Owner: the buffer.
        chunk_epoch: Leader epoch of the record before the end of the chunk. Owner: the buffer.
        records: Fetched records not decoded yet, or None. Owner: the buffer.
        heavy: Whether `records` are decoded in a thread. Owner: the buffer.
        body: What `records` points into. Owner: the buffer.
    """

    __slots__ = (
        "_epoch",
        "_position",
        "at_work",
        "body",
        "chunk",
        "chunk_epoch",
        "error",
        "error_stays",
        "fetch_bytes",
        "fetch_generation",
        "generation",
        "heavy",
        "highwater",
        "last_stable_offset",
        "leader",
        "leader_epoch",
        "leader_until",
        "log_start_offset",
        "node",
        "paused",
        "polled_at",
        "records",
        "refused_epoch",
        "remade",
        "replica",
        "replica_until",
        "reset",
        "resumes",
        "retry_at",
        "rival_id",
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
        self.highwater: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.polled_at: int | None = None
        self.leader = NOWHERE
        self.leader_epoch = UNKNOWN_EPOCH
        self.topic_id: UUID | None = None
        self.rival_id: UUID | None = None
        self.unvalidated = False
        self.remade = False
        self.node = NOWHERE
        self.replica = NOWHERE
        self.replica_until = 0.0
        self.leader_until = 0.0
        self.refused_epoch = UNKNOWN_EPOCH
        self.retry_at = 0.0
        self.fetch_bytes = fetch_bytes
        self.until: int | None = None
        self.waits_for_chunk = False
        self.at_work: AtWork | None = None
        self.chunk: Chunk | None = None
        self.chunk_epoch = UNKNOWN_EPOCH
        self.records: RecordSet | None = None
        self.heavy = False
        self.body: ResponseBody | None = None
        self._position: int | None = None
        self._epoch = UNKNOWN_EPOCH  # of the record before `_position`

    @property
    def position(self) -> int | None:
        """Offset of the next record to hand out; None while it is being looked up."""
        return self._position if self.chunk is None else self.chunk.position

    @property
    def position_epoch(self) -> int:
        """Leader epoch of the record before `position`, or UNKNOWN_EPOCH: what a commit tells."""
        chunk = self.chunk
        if chunk is None:
            return self._epoch
        if chunk.index == chunk.count:
            return self.chunk_epoch
        return self._epoch if chunk.index == 0 else chunk.records[chunk.index - 1].leader_epoch

    def standing(self) -> tuple[int | None, int]:
        """`position` and `position_epoch`: a commit asks them of thousands at once."""
        if self.chunk is None:
            return self._position, self._epoch
        return self.chunk.position, self.position_epoch

    @property
    def fetch_epoch(self) -> int:
        """Leader epoch of the record before `fetch_offset`, or UNKNOWN_EPOCH."""
        return self._epoch if self.chunk is None else self.chunk_epoch

    @property
    def fetch_offset(self) -> int | None:
        """Offset of the next record to ask a broker for; None while it is being looked up."""
        return self._position if self.chunk is None else self.chunk.end

    @property
    def fetchable(self) -> bool:
        """Whether to ask for its records: only with nothing of it still undecoded (seed 0)."""
        offset = self.fetch_offset
        return (
            self.records is None
            and not self.paused
            and self.error is None
            and not self.waits_for_chunk
            and not self.unvalidated
            and offset is not None
            and (self.until is None or offset < self.until)
        )

    def seek(self, offset: int, epoch: int = UNKNOWN_EPOCH) -> None:
        """Stand at `offset`. The buffer has let go of the old records before.

        Args:
            epoch: Leader epoch of the record before it, where it is known.
        """
        self.generation += 1
        self.at_work = None
        self._stand(offset, epoch)

    def return_to(self, offset: int, epoch: int) -> None:
        """Stand at `offset`, which is not past the position, because the log was cut behind it.
        The buffer has let go of the old records before.

        Unlike after a seek, a batch that was taken before may still be given back, and is kept
        from auto-commits as long as a block is at work on it.

        Args:
            epoch: Leader epoch of the record before it, where it is known.
        """
        work = self.at_work
        if work is not None and offset < work.offset:
            work.offset, work.epoch = offset, epoch
        self._stand(offset, epoch)

    def _stand(self, offset: int, epoch: int) -> None:
        self.fetch_generation += 1
        self.reset = None
        self.resumes = False
        self.error = None
        self.waits_for_chunk = False
        self._position = offset
        self._epoch = epoch
        self.remade = False
        self.unvalidated = epoch >= 0 and self.leader_epoch >= 0
        if self.rival_id is not None:
            self.topic_id = None  # the position was chosen for whichever of the two it is
            self.unvalidated = True

    def ask_reset(self, policy: ResetPolicy) -> None:
        """Have the position looked up by `policy`. The buffer has let go of the old records."""
        self._outdate()
        self.reset = policy
        self.resumes = False
        self.error = None
        self.waits_for_chunk = False
        self.at_work = None
        self._position = None
        self._epoch = UNKNOWN_EPOCH
        self.remade = False
        self.unvalidated = False
        if self.rival_id is not None:
            self.topic_id = self.rival_id = None  # the position found belongs to what is told then

    def on_lost(self) -> None:
        """The partition is no longer assigned."""
        self._outdate()

    def _outdate(self) -> None:
        self.generation += 1
        self.fetch_generation += 1

    def follow(self, metadata: Metadata) -> None:
        """Note what newer metadata tells of the leader and the topic. Either may make the position
        doubtful; while there is no leader nothing changes (as in Java): it would have to be asked.
        """
        topic = metadata.topics.get(self.tp.topic)
        if topic is None:
            return
        if topic.topic_id is not None:
            self._on_topic_id(topic.topic_id)
        if self.rival_id is not None:
            return  # the leader that is told is perhaps that of a topic that is gone
        known = topic.partitions.get(self.tp.partition)
        if known is not None and known.leader in metadata.brokers:
            self._on_leader(known.leader, known.leader_epoch)

    def _on_topic_id(self, told: UUID) -> None:
        if told == self.topic_id:
            self.rival_id = None  # if there was doubt, the position is validated once more
        elif self.fetch_offset is None:
            if self.topic_id is not None:
                self._outdate()  # the answer under way may be about the old topic
            self.topic_id = told
        elif self.topic_id is None and self.rival_id is None:
            self.topic_id = told
        else:
            self.rival_id = told
            self.unvalidated = True

    def on_rival_confirmed(self) -> None:
        """The leader says that the rival id is the topic's: the topic was made again."""
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
        self.replica = NOWHERE  # the new leader may prefer another one
        # What is not decoded yet may know an epoch, where what is decoded does not.
        self.unvalidated = self.remade or (
            epoch >= 0
            and self.fetch_offset is not None
            and (self.fetch_epoch >= 0 or self.records is not None)
        )

    def on_chunk_done(self) -> None:
        """The chunk was handed out whole."""
        if self.chunk is not None:
            self._position = self.chunk.end
            self._epoch = self.chunk_epoch
            self.chunk = None

    def fail(self, error: Exception, *, stays: bool) -> None:
        """Let the next read raise `error`: until a seek, or once."""
        self.error = error
        self.error_stays = stays

    def grow(self, limit: int) -> bool:
        """Ask for twice as much from now on.

        Returns:
            False if `limit` bytes are asked for already.
        """
        if self.fetch_bytes >= limit:
            return False
        self.fetch_bytes = min(2 * self.fetch_bytes, limit)
        return True


class Positions:
    """The states of the assigned partitions, by partition.

    Args:
        reset: The policy for partitions that have no position yet.
        fetch_bytes: How much of one partition to ask for in a fetch.
    """

    def __init__(self, reset: ResetPolicy, fetch_bytes: int) -> None:
        self._reset = reset
        self._fetch_bytes = fetch_bytes
        self._states: dict[TopicPartition, PartitionState] = {}

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, tp: object) -> bool:
        return tp in self._states

    def get(self, tp: TopicPartition) -> PartitionState | None:
        """The state of a partition, or None if it is not assigned."""
        return self._states.get(tp)

    def state(self, tp: TopicPartition) -> PartitionState:
        """The state of a partition.

        Raises:
            IllegalStateError: It is not assigned.
        """
        state = self._states.get(tp)
        if state is None:
            raise IllegalStateError(f"Partition {tp} is not assigned")
        return state

    def is_current(self, state: PartitionState, generation: int) -> bool:
        """Whether `state` is still assigned, and nobody chose another position since
        `generation`."""
        return state.generation == generation and self._states.get(state.tp) is state

    def awaits_answer(self, state: PartitionState, fetch_generation: int) -> bool:
        """Whether an answer about `state`, asked for in `fetch_generation`, still counts."""
        return state.fetch_generation == fetch_generation and self._states.get(state.tp) is state

    def partitions(self) -> set[TopicPartition]:
        """The assigned partitions, a new set."""
        return set(self._states)

    def assign(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[list[PartitionState], list[PartitionState]]:
        """Make `partitions` the assignment. Those that stay keep their position, as in Java.

        Returns:
            The states that came and those that are gone (their answers count no more).
        """
        wanted = dict.fromkeys(partitions)
        gone = [state for tp, state in self._states.items() if tp not in wanted]
        for state in gone:
            del self._states[state.tp]
            state.on_lost()
        came = []
        for tp in wanted:
            if tp not in self._states:
                state = PartitionState(tp, self._reset, self._fetch_bytes)
                self._states[tp] = state
                came.append(state)
        return came, gone

    def without_position(self) -> list[PartitionState]:
        """The partitions whose position has to be looked up (those whose look-up failed come back
        when the application has been told)."""
        return [
            state
            for state in self._states.values()
            if state.reset is not None and state.error is None
        ]


def error_of(state: PartitionState) -> Exception:
    """What a read of `state` raises now; an error that is raised once is taken away."""
    error = state.error
    if error is None:
        raise KafkaError(f"{state.tp} has no error to raise")
    if not state.error_stays:
        state.error = None
    return error
