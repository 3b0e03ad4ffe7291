"""Applies a fetch response to one partition. Sans-IO.

Errors are handled as in Java's `FetchCollector`; a stale response (the partition was sought, lost
or moved to another broker since the request) changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from aiokafka_lite import errors
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.cluster.outage import RepeatedKinds
from aiokafka_lite.consumer.buffering.fetch_buffer import FetchBuffer
from aiokafka_lite.consumer.consumer_options import ConsumerOptions, IsolationLevel, OffsetReset
from aiokafka_lite.consumer.fetching.fetch_session import PartitionAnswer
from aiokafka_lite.consumer.partitions.fetch_source import NOWHERE
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.consumer.partitions.response_body import ResponseBody
from aiokafka_lite.errors import BrokerResponseError, KafkaError, for_code
from aiokafka_lite.protocol.messages.fetch import PartitionData
from aiokafka_lite.reading.heavy_batches import LOOP_LIMIT, is_heavy
from aiokafka_lite.record.compression import DEFAULT_LIMIT, Bytes
from aiokafka_lite.record.header import LENGTH_AT, LENGTH_END
from aiokafka_lite.record.record_set import RecordSet

log = logging.getLogger(__name__)

WHOLE_BATCHES_FROM: Final = 3
"""First version that returns a partition's first batch whole, however large it is (KIP-74)."""


class Placing(Protocol):
    """The fetcher, which decides where each partition is fetched."""

    loop: asyncio.AbstractEventLoop

    @property
    def metadata(self) -> Metadata:
        """The newest metadata."""

    @property
    def retry_delay(self) -> float:
        """Seconds to wait before a retry."""

    def place(self, state: PartitionState, metadata: Metadata) -> None:
        """Fetch a partition from its leader, or from the leader's preferred follower."""

    def place_if_due(self, state: PartitionState) -> None:
        """Place a partition now that would be placed in a later iteration of the event loop."""

    def update(self, state: PartitionState) -> None:
        """A partition changed: reconsider its fetch."""

    def retry_later(self, state: PartitionState, *, refresh: bool) -> None:
        """Pause the fetches of a partition; with `refresh`, also refresh the metadata."""

    def pause_for_retry(self, state: PartitionState) -> None:
        """Pause the fetches of a partition."""


class Answers:
    """Processes the responses of all brokers.

    Args:
        placing: Called when the status of a partition changes.
        positions: The assigned partitions.
        buffer: Receives records and errors.
        options: The consumer's options.
        metadata_max_age: Seconds for which to fetch from a follower that a leader named.
        resolve_positions: Called when partitions need a position lookup.
    """

    def __init__(
        self,
        placing: Placing,
        positions: Positions,
        buffer: FetchBuffer,
        options: ConsumerOptions,
        *,
        metadata_max_age: float,
        resolve_positions: Callable[[], None],
    ) -> None:
        self._placing = placing
        self._positions = positions
        self._buffer = buffer
        self._options = options
        # Stored, because an attribute of an enum is a function call in CPython 3.11.
        self._committed = options.isolation_level is IsolationLevel.READ_COMMITTED
        self._metadata_max_age = metadata_max_age
        self._resolve_positions = resolve_positions
        self._failures = RepeatedKinds()  # for the log

    def take(self, answer: PartitionAnswer, node: int, version: int, body: ResponseBody) -> bool:
        """Apply one partition's part of a response.

        Returns:
            True if the application can read records or an error of it. After records, the caller
            must call `Placing.update`.
        """
        asked, data = answer
        state, offset = asked.state, asked.offset
        if not data.error_code and state.source.node in (node, NOWHERE):
            # Valid even if the response is stale: in a session, the broker sends it only once.
            self._record_offsets(state, data, version)
        if not self._positions.awaits_answer(state, asked.generation):
            return False  # the partition was sought or lost meanwhile
        if (
            state.source.node != node
            or state.fetched.records is not None
            or state.fetch_offset != offset
        ):
            return False  # it moved to another broker, to which the request is repeated
        if data.error_code:
            self._placing.place_if_due(state)
            if state.source.node != node:
                return False  # newer metadata, or a hint in this response, names another broker
            return self._on_error(state, node, offset, for_code(data.error_code))
        state.source.polled_at = int(time.time() * 1000)
        if data.preferred_read_replica not in (NOWHERE, node):
            self._on_preferred(state, data.preferred_read_replica)
        if not data.records:
            return False
        if version >= WHOLE_BATCHES_FROM and _is_truncated(data.records):
            self._placing.pause_for_retry(state)
            about = f"the first batch of {state} at offset {offset} is truncated"
            self._fail(state, errors.CorruptRecordException(about), stays=False)
            return True
        topic, partition = state.tp
        heavy = is_heavy(data.records)
        records = RecordSet(
            data.records,
            topic,
            partition,
            offset,
            check_crcs=self._options.check_crcs,
            aborted=_aborted(data) if self._committed else (),
            decompressed_limit=(DEFAULT_LIMIT if heavy or self._buffer.in_place else LOOP_LIMIT),
        )
        self._buffer.add(state, records, body, heavy=heavy)
        return True

    def _on_preferred(self, state: PartitionState, replica: int) -> None:
        """The leader named a follower to fetch from, and returned no records. If that follower is
        unknown or has just failed, the leader is fetched from again after a pause."""
        metadata, now = self._placing.metadata, self._placing.loop.time()
        if replica not in metadata.brokers or now < state.source.leader_until:
            self._placing.retry_later(state, refresh=True)
        else:
            state.source.replica = replica
            state.source.replica_until = now + self._metadata_max_age
            self._placing.place(state, metadata)

    def leave_replica(self, state: PartitionState) -> None:
        """A follower failed: fetch from the leader for a while, even if it names a follower."""
        state.source.replica = NOWHERE
        state.source.leader_until = self._placing.loop.time() + self._placing.retry_delay

    def _record_offsets(self, state: PartitionState, data: PartitionData, version: int) -> None:
        """Record the start and end offsets of the partition."""
        if data.high_watermark >= 0:  # -1: unknown
            state.source.highwater = data.high_watermark
        if version < 4:
            state.source.last_stable_offset = None
        else:  # ignored in read_uncommitted (as in aiokafka)
            state.source.last_stable_offset = data.last_stable_offset if self._committed else -1
        state.source.log_start_offset = data.log_start_offset if version >= 5 else None

    def _log_retry(self, level: int, state: PartitionState, node: int, why: str) -> None:
        """Log a failed fetch that is retried: the first of its kind, then a count once a minute."""
        times = self._failures.on_event((state.tp, why), time.monotonic())
        if times is None:
            return
        log.log(
            level,
            "%s: Fetching %s from broker %s failed%s: %s; retrying",
            self._options.log_name,
            state,
            node,
            times,
            why,
            extra=log_extra(self._options.log_name, state.tp, broker=node),
        )

    def _on_error(
        self, state: PartitionState, node: int, offset: int, kind: type[BrokerResponseError]
    ) -> bool:
        from_follower = node == state.source.replica
        if from_follower:
            self.leave_replica(state)
        if kind is errors.OffsetOutOfRangeError and not from_follower:
            policy = self._options.auto_offset_reset
            if policy is not OffsetReset.NONE and state.fetched.chunk is not None:
                # Deliver the decoded records first, then decide whether to reset.
                state.waits_for_chunk = True
                self._placing.update(state)
                return False
            if policy is not OffsetReset.NONE:
                log.info(
                    "%s: Offset %s of %s is out of range; resetting it to %s",
                    self._options.log_name,
                    offset,
                    state,
                    policy,
                    extra=log_extra(self._options.log_name, state.tp, broker=node),
                )
                state.reset_by_policy(policy, offset)
                # The new position may be out of range again, and so on.
                self._placing.pause_for_retry(state)
                self._placing.update(state)
                self._resolve_positions()
                return False
            self._fail(state, kind({state.tp: offset}), stays=True)
            return True
        if from_follower or (kind.retriable and kind is not errors.CorruptRecordException):
            self._log_retry(logging.INFO, state, node, kind.__name__)
            refresh = True
            if kind is errors.UnknownLeaderEpochError:
                # The broker lags behind the metadata, so a refresh helps only if it keeps rejecting
                # the epoch, which may be that of a deleted topic.
                refresh = state.source.refused_epoch == state.leader_epoch
                state.source.refused_epoch = state.leader_epoch
            self._placing.retry_later(state, refresh=refresh)
            return False
        if kind is errors.UnknownError:
            self._log_retry(logging.WARNING, state, node, "unknown server error")
            self._placing.retry_later(state, refresh=False)
            return False
        about: object = f"fetching {state} at offset {offset}"
        if kind is errors.TopicAuthorizationFailedError:
            about = state.tp.topic
        self._placing.pause_for_retry(state)
        self._fail(state, kind(about), stays=False)
        return True

    def _fail(self, state: PartitionState, error: KafkaError, *, stays: bool) -> None:
        self._buffer.fail(state, error, stays=stays)
        self._placing.update(state)


def _aborted(data: PartitionData) -> list[tuple[int, int]]:
    """Aborted transactions as (producer id, first offset)."""
    return [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]


def _is_truncated(records: Bytes) -> bool:
    """True if the first batch is longer than the data."""
    if len(records) < LENGTH_END:
        return True
    return int.from_bytes(records[LENGTH_AT:LENGTH_END], signed=True) > len(records) - LENGTH_END
