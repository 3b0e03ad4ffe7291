"""The methods of `AIOKafkaConsumer` that deal with offsets: positions, seeks and commits.

A base class of `AIOKafkaConsumer`, separate only to keep both readable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from aiokafka_lite._arguments import (
    INT64,
    as_partition,
    as_partitions,
    is_int,
    offsets_to_commit,
    whole,
)
from aiokafka_lite.consumer.consumer_options import OffsetReset
from aiokafka_lite.consumer.core import ConsumerCore
from aiokafka_lite.consumer.offsets.position_resolver import EARLIEST, LATEST, Found
from aiokafka_lite.consumer.offsets.queries import offsets_at, topic_names
from aiokafka_lite.consumer.partitions.positions import PartitionState
from aiokafka_lite.errors import ConsumerStoppedError, IllegalOperation, IllegalStateError
from aiokafka_lite.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from aiokafka_lite.consumer.membership.consumer_group import ConsumerGroup

_T = TypeVar("_T")


class OffsetCalls:
    """Positions, seeks, commits and offset queries.

    Args:
        core: The consumer's parts.
    """

    def __init__(self, core: ConsumerCore) -> None:
        self._core = core

    # --- positions

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to deliver, waiting until it is known. After
        `unsubscribe`, the listener may still call this for the revoked partitions.

        Raises:
            IllegalStateError: The partition is not assigned.
            NoOffsetForPartitionError: No position exists, and `auto_offset_reset="none"`.
            KafkaTimeoutError: No broker returned it within `request_timeout_ms`.
        """
        tp = as_partition(partition)
        self._check_running()
        group = self._core.group
        if group is not None and tp in group.parting and tp not in self._core.positions:
            return group.parting[tp].offset
        return await self._core.position(tp)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the offset after the newest record of an assigned partition, as the last fetch
        reported it; None before the first fetch.

        Raises:
            IllegalStateError: The partition is not assigned.
        """
        return self._core.positions.state(as_partition(partition)).highwater

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset, below which every transaction is completed, as the last
        fetch reported it.

        Returns:
            -1 with "read_uncommitted"; None before the first fetch and with brokers before 0.11.

        Raises:
            IllegalStateError: The partition is not assigned.
        """
        return self._core.positions.state(as_partition(partition)).last_stable_offset

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """Return when the last fetch of the partition was answered (with or without records), in
        milliseconds since the epoch; None before the first fetch.

        Raises:
            IllegalStateError: The partition is not assigned.
        """
        return self._core.fetcher.polled_at(self._core.positions.state(as_partition(partition)))

    # --- seeking

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue reading at `offset`. Takes effect before this returns: buffered records are
        discarded.

        Raises:
            ValueError: The offset is not an integer, is negative, or is above 2**63 - 1.
            IllegalStateError: The partition is not assigned.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        if not is_int(offset) or offset < 0:
            raise ValueError("Offset must be a positive integer")
        if offset > INT64:
            raise ValueError(f"Offset must be at most {INT64}, not {offset}")
        self._check_running()
        self._core.seek(self._core.positions.state(as_partition(partition)), offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """Continue reading at the oldest record; returns when the positions are known.

        Args:
            *partitions: All assigned partitions by default.

        Returns:
            True.

        Raises:
            TypeError: An argument is not a TopicPartition.
            IllegalStateError: A partition is not assigned, or no partition is.
            KafkaTimeoutError: A position was not known within `request_timeout_ms`; the lookup
                continues.

        Cancellation: stops the wait; the seek still takes place.
        """
        await self._core.reset(self._these_or_all(partitions), OffsetReset.EARLIEST)
        return True

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """Continue reading after the newest record (with "read_committed": at the last stable
        offset); returns when the positions are known. Otherwise like `seek_to_beginning`."""
        await self._core.reset(self._these_or_all(partitions), OffsetReset.LATEST)
        return True

    # --- committed offsets

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | tuple[int, str] | OffsetAndMetadata] | None = None,
    ) -> None:
        """Commit offsets to the group, which resumes reading there.

        Retriable errors (the coordinator moves, a topic is not known yet) are retried for
        `request_timeout_ms`. Commits of one consumer take effect in the order of the calls.

        Args:
            offsets: The offset of the next record to read, by partition. (offset, metadata) adds
                any text; an OffsetAndMetadata may carry a leader epoch. By default, the offsets
                of the delivered records of all assigned partitions. After `unsubscribe`, the
                listener may still commit the revoked partitions.

        Raises:
            IllegalOperation: The consumer has no `group_id`.
            IllegalStateError: The consumer has no subscription, or a partition is not assigned.
            ValueError: `offsets` is not such a dict, or is empty; an offset is negative.
            TypeError: A key is not a TopicPartition, or metadata is not a str.
            CommitFailedError: The group has rebalanced or is rebalancing, and may have assigned
                the partitions to another member; the cause is the broker's error.
            FencedInstanceIdError: Another process uses the same `group_instance_id`.
            GroupAuthorizationFailedError, TopicAuthorizationFailedError: Not authorized.
            OffsetMetadataTooLargeError: Metadata exceeds the broker's
                `offset.metadata.max.bytes`.
            KafkaTimeoutError: Not completed within `request_timeout_ms`; the cause is the last
                error.
            ConsumerStoppedError: The consumer was stopped, before the call or while it waited.

        Cancellation: stops the wait; the commit may still take place.
        """
        group = self._group()
        core, commits, parting = self._core, group.commits, group.parting
        if not (core.subscription.manual or core.subscription.shared or parting):
            raise IllegalStateError("Not subscribed to any topics")
        if not (len(core.positions) or commits.member or parting):
            raise IllegalStateError("No partitions assigned")
        if offsets is None:
            wanted = {**parting, **commits.given()}
        else:
            wanted = offsets_to_commit(offsets)
            assigned = [tp for tp in wanted if tp not in parting]
            for tp in assigned:
                core.positions.state(tp)
            group.check_commit(assigned)
        await self._unless_stopped(commits.commit(wanted, core.deadline()))

    async def committed(self, partition: TopicPartition) -> int | None:
        """Return the group's committed offset of a partition, assigned or not.

        Returns:
            The offset of the next record to read; None if nothing was committed, or if the
            partition does not exist.

        Raises:
            IllegalOperation: The consumer has no `group_id`.
            TypeError: The argument is not a TopicPartition.
            GroupAuthorizationFailedError, TopicAuthorizationFailedError: Not authorized.
            KafkaTimeoutError: No answer within `request_timeout_ms`; also if an open transaction
                that may change the offset is not completed in time.
            ConsumerStoppedError: The consumer was stopped, before the call or while it waited.

        Cancellation: safe.
        """
        commits = self._group().commits
        tp = as_partition(partition)
        told = await self._unless_stopped(commits.committed([tp], self._core.deadline()))
        return told[tp].offset if tp in told else None

    async def seek_to_committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, int | None]:
        """Continue reading at the group's committed offsets, where they exist.

        The offsets of records read before can no longer be sent to a transaction, because those
        records are read again. Abort the transaction first.

        Args:
            *partitions: All assigned partitions by default.

        Returns:
            The committed offset of each partition; None if there is none, and its position does
            not change.

        Raises:
            IllegalStateError: A partition is not assigned, or no partition is.
            IllegalOperation, TypeError, KafkaError, ConsumerStoppedError: As for `committed`.

        Cancellation: safe; no position has changed.
        """
        states = self._these_or_all(partitions)
        # Before the request is sent: it may overtake offsets that are in flight.
        self._core.leases.on_reread([state.tp for state in states])
        told = await self._unless_stopped(
            self._group().commits.committed([state.tp for state in states], self._core.deadline())
        )
        for state in states:
            found = told.get(state.tp)
            if found is not None and self._core.positions.get(state.tp) is state:
                self._core.seek(state, found.offset, found.leader_epoch)
        return {tp: told[tp].offset if tp in told else None for tp in (s.tp for s in states)}

    # --- queries

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition, assigned or not. No position changes.

        Raises:
            KafkaTimeoutError: No answer within `request_timeout_ms`; also for a partition that
                does not exist.

        Cancellation: safe.
        """
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition (with "read_committed": the
        last stable offset). Otherwise like `beginning_offsets`."""
        return await self._ends(partitions, LATEST)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find the first record of each partition whose timestamp is at or after a given time.

        Args:
            timestamps: Milliseconds since the epoch by partition, assigned or not.

        Returns:
            The record's offset and timestamp; None if there is no such record.

        Raises:
            TypeError: `timestamps` is not a dict, or a time is not an integer.
            ValueError: A time is negative, or above 2**63 - 1.
            UnsupportedVersionError: Brokers before 0.10.1 do not support this search.
            KafkaTimeoutError: As for `beginning_offsets`.

        Cancellation: safe.
        """
        times: dict[TopicPartition, int] = {}
        if not isinstance(timestamps, Mapping):
            raise TypeError(
                f"`timestamps` should be a dict of times by TopicPartition, not {timestamps!r}"
            )
        for partition, timestamp in timestamps.items():
            tp = as_partition(partition)
            times[tp] = whole(f"timestamps[{tp}]", timestamp, least=-INT64)
            if times[tp] < 0:
                raise ValueError(
                    f"The target time for partition {tp} is {timestamp}."
                    " The target time cannot be negative."
                )
        self._check_running()
        found = await self._unless_stopped(self._offsets(times, search=True))
        return {tp: _offset_and_timestamp(found[tp]) for tp in times}

    async def topics(self) -> set[str]:
        """Return the names of all topics this client may describe, except internal ones.

        Raises:
            KafkaTimeoutError: No broker answered within `request_timeout_ms`.
        """
        self._check_running()
        return await self._unless_stopped(topic_names(self._core.cluster, self._core.deadline()))

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return a new set of the partitions of a topic; None if the metadata lacks the topic."""
        known = self._core.cluster.metadata.topics.get(topic)
        if known is None or not known.partitions:
            return None
        return set(known.partitions)

    # --- shared with the public class

    def _group(self) -> ConsumerGroup:
        """Return the group.

        Raises:
            IllegalOperation: The consumer has no group.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        if self._core.group is None:
            raise IllegalOperation("Requires group_id")
        self._check_running()
        return self._core.group

    def _check_running(self) -> None:
        if self._core.closed:
            raise self._core.ended()
        self._core.check_home()

    async def _unless_stopped(self, asked: Awaitable[_T]) -> _T:
        """Await a cluster call; raise ConsumerStoppedError if the consumer is stopped meanwhile."""
        try:
            return await asked
        except IllegalStateError:
            if self._core.closed:
                raise ConsumerStoppedError() from None
            raise

    def _states(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        wanted = as_partitions(partitions)
        return [self._core.positions.state(tp) for tp in wanted]

    def _these_or_all(self, partitions: Collection[TopicPartition]) -> list[PartitionState]:
        self._check_running()
        states = self._states(partitions) if partitions else list(self._core.positions)
        if not states:
            raise IllegalStateError("No partitions are currently assigned")
        return states

    async def _offsets(
        self, times: Mapping[TopicPartition, int], *, search: bool = False
    ) -> dict[TopicPartition, Found]:
        core = self._core
        isolation = core.options.isolation_level
        return await offsets_at(
            core.cluster, times, core.deadline(), isolation=isolation, search=search
        )

    async def _ends(
        self, partitions: Iterable[TopicPartition], which: int
    ) -> dict[TopicPartition, int]:
        wanted = as_partitions(partitions)
        self._check_running()
        found = await self._unless_stopped(self._offsets(dict.fromkeys(wanted, which)))
        return {tp: max(found[tp].offset, 0) for tp in wanted}


def _offset_and_timestamp(found: Found) -> OffsetAndTimestamp | None:
    if found.offset < 0:
        return None
    return OffsetAndTimestamp(found.offset, found.timestamp)
