"""Looks up offsets at the brokers: the ends of partitions, and records by time.

`list_offsets` works for all partitions, assigned or not. `PositionResolver` looks up the missing
positions of assigned partitions in the background, without a read. A newly assigned partition
resumes at the group's committed offset (`CommittedReader`); without one, and after a
reset, the reset policy applies.

Non-obvious:

- There is one request per leader. A partition without a leader waits alone and delays no other;
  the partitions of an unknown topic wait for it together.
- A position is dropped if the application called `seek` for its partition meanwhile, which changes
  the partition's fetch generation.
- A lookup that waits for the group coordinator delays no other.
- Lookups are retried for as long as a broker is unavailable. The first failure is logged, then a
  count once a minute, in one line for all partitions of a lookup.

Source: ListOffsetsRequest.json v0-v11, KIP-79 (search by time), KIP-207, KIP-320.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from copy import copy
from typing import Final, NamedTuple, Protocol, TypeAlias

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.large_metadata import Slices
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.outage import RepeatedKinds
from aiokafka_lite.cluster.pace import Pace
from aiokafka_lite.cluster.retry import LeaderOf, call
from aiokafka_lite.consumer.buffering.fetch_buffer import FetchBuffer
from aiokafka_lite.consumer.consumer_options import ConsumerOptions, IsolationLevel
from aiokafka_lite.consumer.partitions.fetch_source import UNKNOWN_EPOCH
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.consumer.partitions.reset_policy import OffsetReset, ResetByDuration
from aiokafka_lite.errors import (
    FencedMemberEpochError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    StaleMemberEpochError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnsupportedForMessageFormatError,
    for_code,
)
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from aiokafka_lite.structs import TopicPartition

log = logging.getLogger(__name__)

EARLIEST: Final = -2
LATEST: Final = -1
"""Times that mean the ends of a partition."""

_BY_TIME_FROM: Final = 1
"""First version that finds a record by its time (Kafka 0.10.1)."""

_ISOLATION_FROM: Final = 2
_TIMEOUT_FROM: Final = 10
LOOKED_UP_AT_ONCE: Final = 1000
"""Maximum number of partitions whose lookups are collected without yielding to the event loop."""

_CONSUMER: Final = -1
_NONE: Final = -1

_TIME_OF: Final = {OffsetReset.EARLIEST: EARLIEST, OffsetReset.LATEST: LATEST}


class _RetryLookup(KafkaError):
    """An error code after which the lookup is retried. Java's consumer retries after all but two,
    and refreshes the metadata: the leader epoch may be that of a topic that was recreated since."""

    retriable = True
    invalid_metadata = True


class CommittedOffset(Protocol):
    """The group's committed offset of a partition."""

    @property
    def offset(self) -> int:
        """Offset of the next record to read."""

    @property
    def leader_epoch(self) -> int | None:
        """Leader epoch of the record before it; None if unknown."""


CommittedReader: TypeAlias = Callable[
    [Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, CommittedOffset]]
]
"""Reads the group's committed offsets; partitions without one are missing from the result. A
retriable error is retried; any other is raised to the application."""

_OUT_OF_GROUP: Final = (FencedMemberEpochError, StaleMemberEpochError, UnknownMemberIdError)
"""The membership has ended or changed: its state machine removes the partitions, or learns the
epoch to retry with. The application does not see these errors."""


class Found(NamedTuple):
    """The result of an offset lookup.

    Attributes:
        offset: The offset, or -1 if no record has that timestamp or a later one.
        timestamp: The record's timestamp in milliseconds since the epoch; -1 for an end.
    """

    offset: int
    timestamp: int


async def list_offsets(
    cluster: Cluster,
    times: Mapping[TopicPartition, int],
    deadline: float,
    *,
    isolation: IsolationLevel,
    on_found: Callable[[TopicPartition, Found | KafkaError], None],
    search: bool = False,
) -> None:
    """Look up an offset in each partition.

    Args:
        times: Milliseconds since the epoch, `EARLIEST` or `LATEST`, by partition.
        deadline: In loop time.
        isolation: With READ_COMMITTED the latest offset is the last stable offset.
        on_found: Called once for each partition as the responses arrive; with a KafkaTimeoutError
            for those without a response in time.
        search: True if the brokers must support searching by time.

    Cancellation: ends the lookup; `on_found` is not called for the remaining partitions.
    """
    pending = dict(times)

    def settle(tp: TopicPartition, found: Found | KafkaError) -> None:
        if pending.pop(tp, None) is not None:
            on_found(tp, found)

    asks: dict[asyncio.Future[None], Collection[TopicPartition]] = {}
    turn = asyncio.Lock()
    pace = Pace()
    loop = asyncio.get_running_loop()

    async def ask(partitions: Collection[TopicPartition]) -> None:
        known, unknown = await _by_leader(cluster, partitions)
        search_from = _BY_TIME_FROM if search else 0
        for group in known:
            if cluster.metadata.leader(*group[0]) is not None:  # otherwise no request is sent yet
                await asyncio.sleep(pace.next_delay(loop.time()))
            asking = _ask(cluster, group, pending, deadline, isolation, settle, search_from, turn)
            asks[asyncio.ensure_future(asking)] = group
        for topic, group in unknown.items():
            learning = _wait_for_topic(cluster, topic, group, deadline, settle)
            asks[asyncio.ensure_future(learning)] = group

    try:
        await ask(list(pending))
        while asks:
            done, _ = await asyncio.wait(asks, return_when=asyncio.FIRST_COMPLETED)
            again: list[TopicPartition] = []
            for each in done:
                again += [tp for tp in asks.pop(each) if tp in pending]
                each.result()
            # Unsettled partitions have another leader by now, and unknown ones have one.
            await ask(again)
    finally:
        for each in asks:
            each.cancel()


async def _by_leader(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> tuple[list[list[TopicPartition]], dict[str, list[TopicPartition]]]:
    """Group partitions by leader, and those of unknown topics by topic.

    A partition without a leader is a group of its own. Yields to the event loop if there are many.
    """
    metadata = cluster.metadata
    slices = Slices()
    led: dict[int, list[TopicPartition]] = {}
    alone: list[list[TopicPartition]] = []
    unknown: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        if slices.over():
            await slices.pause()
        leader = metadata.leader(*tp)
        if leader is not None:
            led.setdefault(leader.node_id, []).append(tp)
            continue
        topic = metadata.topics.get(tp.topic)
        if topic is None or topic.error is not None or not topic.partitions:
            unknown.setdefault(tp.topic, []).append(tp)
        else:
            alone.append([tp])
    return [*led.values(), *alone], unknown


async def _wait_for_topic(
    cluster: Cluster,
    topic: str,
    group: Collection[TopicPartition],
    deadline: float,
    settle: Callable[[TopicPartition, Found | KafkaError], None],
) -> None:
    """Wait until a topic, and with it the leaders of its partitions, is known."""
    try:
        await cluster.partitions_of(topic, deadline)
    except KafkaTimeoutError as error:
        for tp in group:
            settle(tp, _timed_out(tp, error))
    except KafkaError as error:
        for tp in group:
            settle(tp, copy(error))


async def _ask(
    cluster: Cluster,
    group: Collection[TopicPartition],
    pending: Mapping[TopicPartition, int],
    deadline: float,
    isolation: IsolationLevel,
    settle: Callable[[TopicPartition, Found | KafkaError], None],
    oldest: int,
    turn: asyncio.Lock,
) -> None:
    """Request offsets from the leader of a group's first partition until that partition is settled.

    Each request includes the other pending partitions of the group.

    Args:
        turn: Held while a response is applied in slices, so that responses take turns.
    """
    first = next(iter(group))
    results: list[tuple[TopicPartition, Found | KafkaError]] = []

    def build(version: int) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for tp in group:
            if tp in pending:
                topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic, partitions=[]))
                known = cluster.metadata.partition(*tp)
                topic.partitions.append(
                    ListOffsetsPartition(
                        partition_index=tp.partition,
                        # Lets a broker that is no longer the leader report it.
                        current_leader_epoch=UNKNOWN_EPOCH if known is None else known.leader_epoch,
                        timestamp=pending[tp],
                    )
                )
        return ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=isolation.value if version >= _ISOLATION_FROM else 0,
            topics=list(topics.values()),
            timeout_ms=_left_ms(deadline) if version >= _TIMEOUT_FROM else 0,
        )

    def check(response: ListOffsetsResponse) -> None:
        results.clear()
        for topic in response.topics:
            for answer in topic.partitions:
                tp = TopicPartition(topic.name, answer.partition_index)
                if not answer.error_code:
                    results.append((tp, _found(tp, answer)))
                    continue
                error = for_code(answer.error_code)(tp.topic)
                if isinstance(error, TopicAuthorizationFailedError):
                    results.append((tp, error))
                elif isinstance(error, UnsupportedForMessageFormatError) and oldest:
                    # This log format has no timestamps.
                    results.append((tp, Found(_NONE, _NONE)))
                elif tp == first:
                    for known in results:
                        settle(*known)  # now, because the next attempt may take a long time
                    raise error if error.invalid_metadata else _RetryLookup(str(error)) from error
        # The response lacks the first partition; retrying at once could loop forever.
        missing = KafkaProtocolError(f"The leader of {_named(first)} returned no offset for it")
        results.append((first, missing))

    try:
        await call(
            cluster,
            PerVersion(ListOffsetsRequest, build),
            LeaderOf(*first),
            deadline,
            check=check,
            oldest=oldest,
        )
    except KafkaTimeoutError as error:
        for tp in group:
            settle(tp, _timed_out(tp, error))
    except KafkaError as error:
        settle(first, error)
    else:
        async with turn:
            slices = Slices()
            for result in results:
                settle(*result)
                if slices.over():
                    await slices.pause()


def _timed_out(tp: TopicPartition, error: KafkaTimeoutError) -> KafkaTimeoutError:
    timeout = KafkaTimeoutError(f"no offset of {_named(tp)} was found in time: {error.args[0]}")
    timeout.__cause__ = error
    return timeout


def _found(tp: TopicPartition, answer: ListOffsetsPartitionResponse) -> Found | KafkaProtocolError:
    found = Found(answer.offset, answer.timestamp)
    if answer.offset == _NONE and answer.old_style_offsets:  # version 0 returns a list
        found = Found(answer.old_style_offsets[0], _NONE)
    if found.offset < _NONE:
        return KafkaProtocolError(
            f"The leader of {_named(tp)} returned the invalid offset {found.offset}"
        )
    return found


def _named(tp: TopicPartition) -> str:
    """Format a partition for errors."""
    return f"{tp.topic}-{tp.partition}"


def _left_ms(deadline: float) -> int:
    return max(int((deadline - asyncio.get_running_loop().time()) * 1000), 1)


_Wanted: TypeAlias = tuple[PartitionState, int]
"""A partition whose position is looked up, and its `fetch_generation` at the request."""


class _Lookups:
    """Positions to look up together.

    Positions at committed offsets are one group. Those by reset policy are another; a policy that
    requires a search by time has its own.
    """

    def __init__(self) -> None:
        self.resuming: list[_Wanted] = []
        self.resetting: dict[bool, list[_Wanted]] = {}


class PositionResolver:
    """Finds positions for assigned partitions that have none.

    Args:
        cluster: The cluster of the brokers to ask.
        positions: The assigned partitions.
        buffer: Receives the error of a partition without an offset and a policy.
        options: The consumer's options.
        tasks: Owner of the tasks.
        on_resolved: Called when a partition has its position, or an error.
        committed: Reads the group's offsets, or None without a group.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        buffer: FetchBuffer,
        options: ConsumerOptions,
        tasks: TaskOwner,
        on_resolved: Callable[[PartitionState], None],
        *,
        committed: CommittedReader | None = None,
    ) -> None:
        self.closed = False
        self._committed = committed
        self._cluster = cluster
        self._positions = positions
        self._buffer = buffer
        self._options = options
        self._tasks = tasks
        self._on_resolved = on_resolved
        self._failures = RepeatedKinds()  # for the log
        self._asked: set[_Wanted] = set()
        self._woken = False
        # True while `_look_up_many` runs: a second run would split a broker's lookups.
        self._collecting = False
        self._again = False  # True if `wake` was called meanwhile
        self._moved = asyncio.Event()  # set when positions were found, cleared by each wait

    def close(self) -> None:
        """Stop all lookups, and end the waits."""
        self.closed = True
        self.announce()

    def wake(self) -> None:
        """Start lookups of all missing positions, in the next iteration of the event loop, so that
        many changes make one request."""
        if not self._woken and not self.closed:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._woken = False
        if self.closed:
            return
        if self._collecting:
            self._again = True
            return
        states = self._positions.without_position()
        if len(states) <= LOOKED_UP_AT_ONCE:
            self._look_up(states)
        else:
            self._collecting = True
            self._tasks.spawn(self._look_up_many(states), "group position lookups")

    async def _look_up_many(self, states: list[PartitionState]) -> None:
        """Collect the lookups of many partitions, then start them."""
        lookups = _Lookups()
        slices = Slices()
        try:
            for state in states:
                if state.reset is not None and state.error is None:
                    self._collect(lookups, state)
                if slices.over():
                    await slices.pause()
        finally:
            self._collecting = False
        self._begin(lookups)
        if self._again:
            self._again = False
            self.wake()

    def _look_up(self, states: Iterable[PartitionState]) -> None:
        lookups = _Lookups()
        for state in states:
            self._collect(lookups, state)
        self._begin(lookups)

    def _collect(self, lookups: _Lookups, state: PartitionState) -> None:
        wanted = (state, state.fetch_generation)
        if wanted in self._asked:
            return
        self._asked.add(wanted)
        if state.resumes and self._committed is not None:
            lookups.resuming.append(wanted)
        else:
            by_time = isinstance(state.reset, ResetByDuration)
            lookups.resetting.setdefault(by_time, []).append(wanted)

    def _begin(self, lookups: _Lookups) -> None:
        resuming, resetting = lookups.resuming, lookups.resetting
        if resuming and self._committed is not None:
            self._tasks.spawn(self._resume(self._committed, resuming), "look up commits")
        for search, group in resetting.items():
            self._tasks.spawn(self._reset(group, search=search), "look up positions")

    def announce(self) -> None:
        """Wake all waits for positions."""
        self._moved.set()

    async def wait(self, states: Collection[PartitionState], deadline: float) -> None:
        """Wait until each partition has had a position or an error, or was unassigned.

        Also returns when the resolver is closed.

        Raises:
            KafkaTimeoutError: The deadline (loop time) passed first.
        """
        rest = list(states)
        slices = Slices()
        try:
            async with asyncio.timeout_at(deadline):
                while rest and not self.closed:
                    if self._is_missing(rest[-1]):
                        self._moved.clear()
                        await self._moved.wait()
                        continue
                    rest.pop()  # check each until it is settled, not all after each change
                    if slices.over():
                        await slices.pause()
        except TimeoutError:
            missing = [state.tp for state in states if state.position is None]
            some = ", ".join(map(_named, missing[:5]))
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise KafkaTimeoutError(f"no position of {some}{more} was found in time") from None

    def _is_missing(self, state: PartitionState) -> bool:
        """True if an assigned partition has neither a position nor an error."""
        return (
            state.position is None
            and state.error is None
            and self._positions.get(state.tp) is state
        )

    async def _resume(self, committed: CommittedReader, wanted: Collection[_Wanted]) -> None:
        """Resume partitions at the group's committed offsets; the others are reset by policy."""
        try:
            found = await committed([state.tp for state, _ in wanted])
        except KafkaError as error:
            if self.closed:
                return
            if error.retriable or isinstance(error, _OUT_OF_GROUP):
                times = self._failures.on_event(type(error).__name__, time.monotonic())
                if times is not None:
                    log.info(
                        "%s: Fetching committed offsets failed%s: %s; retrying",
                        self._options.log_name,
                        times,
                        error,
                        extra=log_extra(self._options.log_name),
                    )
                await asyncio.sleep(self._cluster.retry_backoff.delay(1))
            else:
                for state, generation in wanted:
                    if self._positions.awaits_answer(state, generation):
                        self._fail(state, copy(error))
        else:
            for state, generation in wanted:
                if self._positions.awaits_answer(state, generation):
                    self._on_committed(state, found.get(state.tp))
        finally:
            self._asked.difference_update(wanted)
        self.wake()  # apply the policy, or retry

    def _on_committed(self, state: PartitionState, commit: CommittedOffset | None) -> None:
        if commit is None:
            state.resumes = False
            return
        log.debug(
            "%s: %s resumes at the committed offset %s",
            self._options.log_name,
            state,
            commit.offset,
        )
        epoch = UNKNOWN_EPOCH if commit.leader_epoch is None else commit.leader_epoch
        self._settle(state, commit.offset, epoch)

    async def _reset(self, wanted: Collection[_Wanted], *, search: bool) -> None:
        """Set the positions of partitions by their reset policy.

        Args:
            search: True if a policy requires a search by time (not supported before 0.10.1).
        """
        by_tp: dict[TopicPartition, _Wanted] = {}
        slices = Slices()
        times: dict[TopicPartition, int] = {}
        late: dict[TopicPartition, KafkaTimeoutError] = {}
        complete = False

        def on_found(tp: TopicPartition, found: Found | KafkaError) -> None:
            if isinstance(found, KafkaTimeoutError):
                if self._positions.awaits_answer(*by_tp[tp]):
                    late[tp] = found
                return
            asked = state, generation = by_tp.pop(tp)
            self._asked.discard(asked)  # one by one: for 100,000 at once, it takes 40 ms
            if self._positions.awaits_answer(state, generation):
                self._on_found(state, found)

        try:
            for state, generation in wanted:
                if slices.over():
                    await slices.pause()
                if not self._positions.awaits_answer(state, generation) or state.reset is None:
                    self._asked.discard((state, generation))
                    continue
                by_tp[state.tp] = state, generation
                if state.reset is OffsetReset.NONE:
                    self._fail(state, NoOffsetForPartitionError(state.tp))
                elif isinstance(state.reset, ResetByDuration):
                    now = int(time.time() * 1000)
                    times[state.tp] = max(now - state.reset.milliseconds, 0)
                else:
                    times[state.tp] = _TIME_OF[state.reset]
            await list_offsets(
                self._cluster,
                times,
                asyncio.get_running_loop().time() + self._options.request_timeout,
                isolation=self._options.isolation_level,
                on_found=on_found,
                search=search,
            )
            complete = not by_tp
        finally:
            if not complete:
                self._asked.difference_update(wanted)
        self._log_late(late)
        self.wake()  # look up those that timed out again

    def _log_late(self, late: Mapping[TopicPartition, KafkaTimeoutError]) -> None:
        """Log a lookup that timed out for some partitions; the line names the first of them."""
        if not late:
            return
        times = self._failures.on_event("no offset", time.monotonic())
        if times is None:
            return
        first, error = next(iter(late.items()))
        others = len(late) - 1
        log.warning(
            "%s: %s%s%s; retrying",
            self._options.log_name,
            error,
            f" (and no offset of {others} other partitions)" if others else "",
            times,
            extra=log_extra(self._options.log_name, first),
        )

    def _on_found(self, state: PartitionState, found: Found | KafkaError) -> None:
        if isinstance(found, KafkaError):
            self._fail(state, found)
        elif isinstance(state.reset, ResetByDuration) and found.offset == _NONE:
            state.reset = OffsetReset.LATEST  # no record is that recent: start with the next one
        else:
            log.debug("%s: %s starts at offset %s", self._options.log_name, state, found.offset)
            # An old broker may return -1 for an empty log, which starts at 0.
            self._settle(state, max(found.offset, 0), UNKNOWN_EPOCH)

    def _settle(self, state: PartitionState, offset: int, epoch: int) -> None:
        state.resolve(offset, epoch)
        self._on_resolved(state)
        self.announce()

    def _fail(self, state: PartitionState, error: KafkaError) -> None:
        self._buffer.fail(state, error, stays=isinstance(error, NoOffsetForPartitionError))
        self._on_resolved(state)
        self.announce()
