"""Finds the missing positions of assigned partitions in the background, without a read.

A newly assigned partition resumes at the group's committed offset (`CommittedReader`); without one,
and after a reset, the reset policy applies: `list_offsets` asks the leaders.

Non-obvious:

- A position is dropped if the application called `seek` for its partition meanwhile, which changes
  the partition's fetch generation.
- A lookup that waits for the group coordinator delays no other.
- Lookups are retried for as long as a broker is unavailable. The first failure is logged, then a
  count once a minute, in one line for all partitions of a lookup.

Source: KIP-320 (the leader epoch of a committed offset).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from copy import copy
from typing import Final, Protocol, TypeAlias

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.large_metadata import Slices
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.outage import RepeatedKinds
from aiokafka_lite.consumer.buffering.fetch_buffer import FetchBuffer
from aiokafka_lite.consumer.consumer_options import ConsumerOptions
from aiokafka_lite.consumer.offsets.offset_lookup import (
    EARLIEST,
    LATEST,
    NO_OFFSET,
    Found,
    list_offsets,
    named,
)
from aiokafka_lite.consumer.partitions.fetch_source import UNKNOWN_EPOCH
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.consumer.partitions.reset_policy import (
    END_WANTED,
    OffsetReset,
    ResetByDuration,
    ResetPolicy,
)
from aiokafka_lite.errors import (
    FencedMemberEpochError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
from aiokafka_lite.structs import TopicPartition

log = logging.getLogger(__name__)

LOOKED_UP_AT_ONCE: Final = 1000
"""Maximum number of partitions whose lookups are collected without yielding to the event loop."""

_TIME_OF: Final = {OffsetReset.EARLIEST: EARLIEST, OffsetReset.LATEST: LATEST}


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
"""The membership has ended or changed: its state machine removes the partitions, or receives the
epoch to retry with. The application does not see these errors."""


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
            lookups.resetting.setdefault(_searches(state.reset), []).append(wanted)

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
        began = asyncio.get_running_loop().time()
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
            passed = asyncio.get_running_loop().time() - began
            missing = [state.tp for state in states if state.position is None]
            some = ", ".join(map(named, missing[:5]))
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise KafkaTimeoutError(
                f"no position of {some}{more} was found within {passed:.3g} s"
            ) from None

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
                elif isinstance(state.reset, OffsetReset):
                    times[state.tp] = _TIME_OF[state.reset]
                elif state.reset.end == END_WANTED:
                    times[state.tp] = LATEST
                else:
                    now = int(time.time() * 1000)
                    times[state.tp] = max(now - state.reset.milliseconds, 0)
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
            return
        # An old broker may return -1 for an empty log, which starts at 0.
        offset, epoch = max(found.offset, 0), found.leader_epoch
        policy = state.reset
        if isinstance(policy, ResetByDuration):
            # No record is that recent: start with the next one. It may be written before the end is
            # known, so another search follows.
            if policy.end == END_WANTED:
                state.continue_reset(policy._replace(end=offset))
                self.wake()
                return
            if found.offset == NO_OFFSET:
                if policy.end is None:
                    state.continue_reset(policy._replace(end=END_WANTED))
                    self.wake()
                    return
                offset, epoch = policy.end, UNKNOWN_EPOCH
        log.debug("%s: %s starts at offset %s", self._options.log_name, state, offset)
        self._settle(state, offset, epoch, found.asked_epoch)

    def _settle(
        self, state: PartitionState, offset: int, epoch: int, asked_epoch: int = UNKNOWN_EPOCH
    ) -> None:
        state.resolve(offset, epoch, asked_epoch)
        self._on_resolved(state)
        self.announce()

    def _fail(self, state: PartitionState, error: KafkaError) -> None:
        self._buffer.fail(state, error, stays=isinstance(error, NoOffsetForPartitionError))
        self._on_resolved(state)
        self.announce()


def _searches(policy: ResetPolicy | None) -> bool:
    """True if the next lookup by a policy is a search by time."""
    return isinstance(policy, ResetByDuration) and policy.end != END_WANTED
