"""Detects log truncation and recreated topics (KIP-320).

A leader elected from lagging replicas (an unclean election) lacks the newest records read from its
predecessor, and stores others at their offsets. A consumer that keeps its offset would miss them.
So when a partition gets another leader or a new leader epoch, and when the position includes an
epoch (from a commit), OffsetForLeaderEpoch asks the leader where the epoch of the last record read
ends. If that is before the position, the log was truncated there: the position returns to that
offset or, with `auto_offset_reset="none"`, reads raise LogTruncationError. If the epoch is unknown
to the leader, the reset policy applies.

A topic that was deleted and recreated has another id (KIP-516). Its log is a different one and may
have any length, so the reset policy applies once the buffered records of the old topic are
delivered. Metadata of a lagging broker also contains another id, and ids have no order. So the
client asks the leader in this metadata for its own metadata, and discards a position only if the
leader returns the same id and leads the partition. (Java ignores the ids, keeps its positions, and
reads the new topic from the old offset.)

Non-obvious:

- A partition is not fetched during its validation; earlier fetched records are still delivered.
  The validated offset is that of the next fetch, and only once everything fetched is decoded:
  before that it is not known.
- If the log was truncated before that offset while decoded records are not delivered yet, they are
  dropped, and the position before them is validated next.
- A response applies only to the same generation, offset and leader epoch as its request.
- While topic ids conflict, the partition is neither fetched nor committed.
- Brokers before 2.3 are not asked: they require broker permissions for the request (as in Java).
- The requests of one iteration of the event loop are combined, one request per leader.

Source: OffsetForLeaderEpochRequest.json v3-v4, KIP-101, KIP-320.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from copy import copy
from typing import Final, NamedTuple

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.broker import Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.metadata import metadata_request
from aiokafka_lite.cluster.outage import RepeatedKinds
from aiokafka_lite.consumer.buffering.fetch_buffer import FetchBuffer
from aiokafka_lite.consumer.consumer_options import ConsumerOptions
from aiokafka_lite.consumer.partitions.fetch_source import UNKNOWN_EPOCH
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.consumer.partitions.reset_policy import OffsetReset
from aiokafka_lite.errors import (
    KafkaError,
    LogTruncationError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.protocol.messages.metadata import MetadataResponse
from aiokafka_lite.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from aiokafka_lite.structs import TopicPartition

log = logging.getLogger(__name__)

_FOR_CONSUMERS_FROM: Final = 3
"""First version that requires only the permission to describe the topic (Kafka 2.3)."""

_IDS_FROM: Final = 10
"""First version of Metadata with topic ids (Kafka 2.8)."""

_CONSUMER: Final = -1
_UNDEFINED: Final = -1

OUTDATED_TRIES: Final = 10
"""How often metadata is refreshed while its leader epoch is older than the position's. A lagging
broker reports an old epoch, but so does any broker for a recreated topic, whose epochs start at 0;
without topic ids (before 2.8) the two look the same."""

OUTDATED_FOR: Final = 30.0
"""Seconds for which it is refreshed if the topic has an id, which shows that it was not recreated:
only a commit that outlived its topic could refer to another. A leader that is cut off from the
controller does not have the epoch of its successor, and would make the reset policy apply."""


class _Asked(NamedTuple):
    """The request for one partition, to match the response with."""

    state: PartitionState
    generation: int
    offset: int
    epoch: int
    leader_epoch: int


class _Outdated(NamedTuple):
    """Metadata that is older than a position.

    Attributes:
        generation: The state's `fetch_generation`, which identifies the position.
        since: Loop time when the metadata was first found too old.
        times: How often it was.
    """

    generation: int
    since: float
    times: int


class Validation:
    """Validates positions against the logs of new leaders.

    Args:
        cluster: The cluster of the brokers to ask.
        positions: The assigned partitions.
        buffer: Receives errors, and drops truncated records.
        options: The consumer's options.
        tasks: Owner of the tasks.
        loop: The event loop of the consumer.
        on_moved: Called when a partition may be fetched again, has an error, or needs a position
            lookup.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        buffer: FetchBuffer,
        options: ConsumerOptions,
        tasks: TaskOwner,
        loop: asyncio.AbstractEventLoop,
        on_moved: Callable[[PartitionState], None],
    ) -> None:
        self.closed = False
        self._cluster = cluster
        self._positions = positions
        self._buffer = buffer
        self._options = options
        self._tasks = tasks
        self._loop = loop
        self._on_moved = on_moved
        self._due: dict[
            PartitionState, None
        ] = {}  # considered in the next iteration of the event loop
        self._asked: set[PartitionState] = set()
        self._deferred: set[PartitionState] = (
            set()
        )  # considered again when more records were delivered
        self._outdated: dict[PartitionState, _Outdated] = {}
        self._failures = RepeatedKinds()  # for the log

    def close(self) -> None:
        """Send no more requests."""
        self.closed = True

    # --- what invalidates a position

    def on_metadata(self, states: Iterable[PartitionState]) -> None:
        """Validate the positions of partitions that have followed newer metadata, if necessary."""
        for state in [state for state in states if state.unvalidated]:
            self.consider(state)

    def consider(self, state: PartitionState) -> None:
        """A partition changed: validate its position if necessary."""
        if not state.unvalidated or state in self._asked or self.closed:
            return
        if not self._due:
            self._loop.call_soon(self._look)
        self._due[state] = None

    def on_starved(self) -> None:
        """A read waits: the buffer may have dropped the records of deferred partitions."""
        if self._deferred:
            held, self._deferred = self._deferred, set()
            for state in held:
                self.consider(state)

    # --- requests

    def _look(self) -> None:
        due, self._due = self._due, {}
        by_leader: dict[int, list[_Asked]] = {}
        rivals: dict[int, list[PartitionState]] = {}
        for state in due:
            if (
                self.closed
                or not state.unvalidated
                or state in self._asked
                or self._positions.get(state.tp) is not state
            ):
                continue
            if state.rival_id is not None:
                leader = self._cluster.metadata.leader(*state.tp)
                if leader is not None:  # else it is considered again with the next metadata
                    rivals.setdefault(leader.node_id, []).append(state)
                continue
            if state.error is not None and not _is_superseded(state):
                continue
            if state.fetched.records is not None:
                self._deferred.add(state)  # also considered again once they are decoded
                continue
            offset, epoch = state.fetch_offset, state.fetch_epoch
            if state.remade:
                if state.fetched.chunk is None:
                    self._on_truncated(state, None, UNKNOWN_EPOCH)
                else:
                    state.waits_for_chunk = True  # considered again once it is delivered
            elif offset is None or epoch < 0 or state.leader_epoch < 0:
                self._validated(state)  # there is no epoch to compare
            elif epoch > state.leader_epoch and self._is_outdated(state):
                self._asked.add(state)
                self._tasks.spawn(self._refresh(state), f"refresh the leader epoch of {state}")
            else:
                leader = self._cluster.metadata.leader(*state.tp)
                if leader is not None:  # else it is considered again with the next metadata
                    asked = _Asked(state, state.fetch_generation, offset, epoch, state.leader_epoch)
                    by_leader.setdefault(leader.node_id, []).append(asked)
        for node, group in by_leader.items():
            self._asked.update(each.state for each in group)
            self._tasks.spawn(self._ask(node, group), f"validate positions at broker {node}")
        for node, unsure in rivals.items():
            self._asked.update(unsure)
            self._tasks.spawn(self._ask_for_ids(node, unsure), f"ask broker {node} for topic ids")

    def _is_outdated(self, state: PartitionState) -> bool:
        """True if newer metadata may arrive."""
        now = self._loop.time()
        found = self._outdated.get(state)
        if found is None or found.generation != state.fetch_generation:
            found = _Outdated(state.fetch_generation, now, 0)
        self._outdated[state] = found._replace(times=found.times + 1)
        if state.topic_id is None:
            return found.times < OUTDATED_TRIES
        return now - found.since < OUTDATED_FOR

    async def _refresh(self, state: PartitionState) -> None:
        times = self._outdated[state].times
        await self._pause(1 if times <= OUTDATED_TRIES else times - OUTDATED_TRIES)
        self._asked.discard(state)
        self.consider(state)

    async def _pause(self, failures: int = 1) -> None:
        """Back off while the metadata is refreshed (as Java does after any failure)."""
        self._cluster.request_update()
        await asyncio.sleep(self._cluster.retry_backoff.delay(failures))

    async def _ask(self, node: int, group: Collection[_Asked]) -> None:
        """Send one request. Partitions without a response are requested again after a pause."""
        try:
            try:
                response = await self._cluster.broker(node).request(
                    _request(group),
                    Purpose.GENERAL,
                    oldest=_FOR_CONSUMERS_FROM,
                    timeout=self._options.request_timeout,
                )
            except UnsupportedVersionError:
                for each in group:
                    if self._still_applies(each):
                        self._validated(each.state)
                return
            except KafkaError as error:
                if self.closed:
                    return
                log.info(
                    "%s: Validating positions at broker %s failed: %s",
                    self._options.log_name,
                    node,
                    error,
                    extra=log_extra(self._options.log_name, broker=node),
                )
                if not error.retriable:
                    for each in group:
                        if self._still_applies(each):
                            self._fail(each.state, copy(error), stays=False)
                await self._pause()
                return
            if not self._on_response(group, response):
                await self._pause()
        finally:
            self._asked.difference_update(each.state for each in group)
            for each in group:
                self.consider(each.state)

    async def _ask_for_ids(self, node: int, unsure: Collection[PartitionState]) -> None:
        """Request the topic ids of partitions from the leader that the metadata reports.

        If it contradicts the metadata or does not respond, they are considered again after a pause,
        with metadata that may come from another broker.
        """
        wanted = {state: state.rival_id for state in unsure}
        try:
            try:
                response = await self._cluster.broker(node).request(
                    metadata_request({state.tp.topic for state in unsure}, _IDS_FROM, False),
                    Purpose.GENERAL,
                    oldest=_IDS_FROM,
                    timeout=self._options.request_timeout,
                )
            except UnsupportedVersionError:
                confirmed = set(unsure)  # this broker has no topic ids, so it cannot contradict
            except KafkaError as error:
                log.info(
                    "%s: Requesting topic ids from broker %s failed: %s",
                    self._options.log_name,
                    node,
                    error,
                    extra=log_extra(self._options.log_name, broker=node),
                )
                confirmed = set()
            else:
                confirmed = _confirmed(unsure, response, node)
            if self.closed:
                return
            pause = False
            for state, rival in wanted.items():
                if state.rival_id is None or self._positions.get(state.tp) is not state:
                    continue  # resolved meanwhile
                if state in confirmed and state.rival_id == rival:
                    state.on_rival_confirmed()
                    log.info(
                        "%s: Topic %s was deleted and recreated: the position of %s is invalid",
                        self._options.log_name,
                        state.tp.topic,
                        state,
                        extra=log_extra(self._options.log_name, state.tp),
                    )
                    self._on_moved(state)
                else:
                    pause = True
            if pause:
                await self._pause()
        finally:
            self._asked.difference_update(unsure)
            for state in unsure:
                self.consider(state)

    def _still_applies(self, asked: _Asked) -> bool:
        """True if a response still applies to the partition's position."""
        state = asked.state
        return (
            not self.closed
            and state.unvalidated
            and not state.remade
            and state.rival_id is None
            and state.fetched.records is None
            and self._positions.awaits_answer(state, asked.generation)
            and (state.fetch_offset, state.leader_epoch) == (asked.offset, asked.leader_epoch)
        )

    # --- responses

    def _on_response(
        self, group: Collection[_Asked], response: OffsetForLeaderEpochResponse
    ) -> bool:
        """Apply the response of each partition.

        Returns:
            True if no partition must be requested again.
        """
        open_ = {each.state.tp: each for each in group}
        for topic in response.topics:
            for end in topic.partitions:
                tp = TopicPartition(topic.topic, end.partition)
                asked = open_.get(tp)
                if asked is None:
                    log.warning(
                        "%s: A broker returned the leader epoch of %s-%s, which was not requested",
                        self._options.log_name,
                        *tp,
                        extra=log_extra(self._options.log_name, tp),
                    )
                elif end.error_code:
                    self._on_error(asked, for_code(end.error_code)(tp.topic))
                else:
                    del open_[tp]
                    if self._still_applies(asked):
                        self._on_end(asked, end)
        return not open_

    def _on_error(self, asked: _Asked, error: KafkaError) -> None:
        """Handle an error code. Java retries after all codes but one."""
        if isinstance(error, TopicAuthorizationFailedError):
            if self._still_applies(asked):
                self._fail(asked.state, error, stays=False)
        else:
            # One line for all partitions: a broker that starts fails for each, several times.
            times = self._failures.on_event(type(error).__name__, self._loop.time())
            if times is None:
                return
            level = logging.INFO if error.retriable else logging.WARNING
            log.log(
                level,
                "%s: Validating the position of %s failed%s: %s; retrying",
                self._options.log_name,
                asked.state,
                times,
                error,
                extra=log_extra(self._options.log_name, asked.state.tp),
            )

    def _on_end(self, asked: _Asked, end: EpochEndOffset) -> None:
        state, offset = asked.state, asked.offset
        known = end.end_offset > _UNDEFINED and end.leader_epoch > _UNDEFINED
        if known and end.end_offset >= offset:
            log.debug("%s: %s is valid at offset %s", self._options.log_name, state, offset)
            self._validated(state)
            return
        position, epoch = state.position, state.position_epoch
        if (
            state.fetched.chunk is not None
            and position is not None
            and (epoch >= 0 or (known and position <= end.end_offset))
        ):
            # The application may not have read the decoded records past that offset.
            self._buffer.forget(state)
            state.return_to(position, epoch)
            self._on_moved(state)
        elif known:
            self._on_truncated(state, end.end_offset, end.leader_epoch)
        else:
            self._on_truncated(state, None, UNKNOWN_EPOCH)

    def _validated(self, state: PartitionState) -> None:
        state.unvalidated = False
        self._outdated.pop(state, None)
        self._on_moved(state)

    def _on_truncated(self, state: PartitionState, end: int | None, epoch: int) -> None:
        """The log that was read ends at `end`; None: no part of it is known to remain."""
        position = state.position
        policy = self._options.auto_offset_reset
        log.warning(
            "%s: The position of %s is %s, but %s",
            self._options.log_name,
            state,
            position,
            "the log was replaced" if end is None else f"the log was truncated to offset {end}",
            extra=log_extra(self._options.log_name, state.tp),
        )
        if policy is OffsetReset.NONE:
            offsets: dict[tuple[str, int], int] = {state.tp: -1 if position is None else position}
            divergent: dict[tuple[str, int], int] = {} if end is None else {state.tp: end}
            self._fail(state, LogTruncationError(offsets, divergent), stays=True)
            return
        self._buffer.forget(state)
        if end is None:
            state.reset_by_policy(policy, position)
        else:
            state.return_to(end, epoch)
            state.unvalidated = False  # this offset is the leader's
        self._outdated.pop(state, None)
        self._on_moved(state)

    def _fail(self, state: PartitionState, error: KafkaError, *, stays: bool) -> None:
        self._buffer.fail(state, error, stays=stays)
        self._on_moved(state)


def _is_superseded(state: PartitionState) -> bool:
    """True if the pending error reports the truncation of a log that was replaced since."""
    error = state.error
    return state.remade and isinstance(error, LogTruncationError) and bool(error.divergent_offsets)


def _confirmed(
    unsure: Collection[PartitionState], response: MetadataResponse, node: int
) -> set[PartitionState]:
    """Return the partitions that the broker leads, by its own metadata, under their rival topic
    id."""
    led = {
        (topic.name, partition.partition_index): topic.topic_id
        for topic in response.topics
        if not topic.error_code
        for partition in topic.partitions
        if partition.leader_id == node
    }
    return {state for state in unsure if led.get(state.tp) == state.rival_id}


def _request(group: Collection[_Asked]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for each in group:
        name, partition = each.state.tp
        topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=partition,
                current_leader_epoch=each.leader_epoch,
                leader_epoch=each.epoch,
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))
