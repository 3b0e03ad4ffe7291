"""Reads the metrics of a consumer from its parts, on each call: for `metrics()`,
`partition_metrics()`, exporters, and brokers that collect them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from time import monotonic, time
from typing import TYPE_CHECKING

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.consumer.buffering.fetch_buffer import FetchBuffer
from aiokafka_lite.consumer.buffering.waiters import Waiters
from aiokafka_lite.consumer.consumer_metrics import Lags, PartitionLag
from aiokafka_lite.consumer.consumer_options import ConsumerOptions
from aiokafka_lite.consumer.fetching.fetcher import Fetcher
from aiokafka_lite.consumer.offsets.end_offsets import EndOffsets
from aiokafka_lite.consumer.partitions.positions import Ends, PartitionState, Positions
from aiokafka_lite.structs import TopicPartition

if TYPE_CHECKING:  # imported at runtime only with a group, or if brokers collect metrics
    from aiokafka_lite.consumer.membership.consumer_group import ConsumerGroup
    from aiokafka_lite.metrics_push.metric_points import ClientMetrics

__all__ = ["MetricsReader"]


class MetricsReader:
    """Reads the metrics of one consumer, under Kafka's names.

    Args:
        cluster: Measures the connections.
        options: The consumer's options.
        positions: The assigned partitions.
        buffer: Measures the fetched records.
        fetcher: Provides the ends of partitions.
        waiters: Measures how long reads wait.
        group: Measures the membership and the commits; None without a group.
        ends: Looks up ends that fetches have not reported for a while.
        active: Returns True while ends may be looked up.
        loop: The event loop of the consumer.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        positions: Positions,
        buffer: FetchBuffer,
        fetcher: Fetcher,
        waiters: Waiters,
        group: ConsumerGroup | None,
        ends: EndOffsets,
        *,
        active: Callable[[], bool],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._positions = positions
        self._buffer = buffer
        self._fetcher = fetcher
        self._waiters = waiters
        self._group = group
        self._ends = ends
        self._active = active
        self._loop = loop

    def values(self) -> dict[str, float | None]:
        """Return the consumer's metrics under Kafka's names."""
        return self._metrics(Lags(self._ends_of(self._positions)))

    def observe(
        self, slice_size: int
    ) -> Generator[None, None, tuple[dict[str, float | None], list[PartitionLag]]]:
        """Read the metrics of the consumer and of each partition in slices.

        The event loop may run at each yield.

        Args:
            slice_size: Number of partitions in a slice.
        """
        states = list(self._positions)
        lags, ends = Lags(), list[Ends]()
        for begin in range(0, len(states), slice_size):
            if begin:
                yield
            part = [
                state
                for state in states[begin : begin + slice_size]
                if self._positions.get(state.tp) is state  # not revoked meanwhile
            ]
            known = list(self._fetcher.ends(part, time()))
            lags.add(known)
            ends += known
        self._look_up_outdated(ends)
        return self._metrics(lags), lags.partitions

    def _metrics(self, assigned: Lags) -> dict[str, float | None]:
        group, now = self._group, self._loop.time()
        assigned.hold(self._positions)
        values = self._buffer.metrics.snapshot(
            assigned,
            monotonic(),
            buffered=self._buffer.bytes,
            budget=self._options.buffer_memory,
            group=None
            if group is None
            else (group.driver.membership.counters, group.commits.counters),
            loop_time=now,
        )
        values.update(self._cluster.connection_metrics(now))
        values["poll-idle-ratio-avg"] = self._waiters.idle_ratio(now)
        return values

    def of_partitions(
        self, states: Iterable[PartitionState]
    ) -> dict[TopicPartition, dict[str, float | None]]:
        """Return lag and lead of these partitions."""
        return Lags(self._ends_of(states)).metrics()

    def pushed(self) -> ClientMetrics:
        """Return what the client pushes to brokers that collect metrics (KIP-714)."""
        from aiokafka_lite.metrics_push.metric_points import ClientMetrics, PartitionMetrics

        return ClientMetrics(
            "consumer",
            self.values,
            lambda: self._cluster.node_metrics(self._loop.time()),
            self._resource,
            PartitionMetrics(
                lambda: list(self._positions.partitions()),
                lambda part: self.of_partitions(
                    [self._positions.state(tp) for tp in part if tp in self._positions]
                ),
            ),
        )

    def _resource(self) -> dict[str, str]:
        """Return the attributes of this consumer for pushed metrics (KIP-714)."""
        found = {"client_rack": self._options.client_rack}
        if self._group is not None:
            member = self._group.driver.membership.group_metadata()
            found["group_id"] = member.group_id
            found["group_instance_id"] = member.instance_id or ""
            found["group_member_id"] = member.member_id
        return {name: value for name, value in found.items() if value}

    def _ends_of(self, states: Iterable[PartitionState]) -> list[Ends]:
        ends = list(self._fetcher.ends(states, time()))
        self._look_up_outdated(ends)
        return ends

    def _look_up_outdated(self, ends: list[Ends]) -> None:
        if self._active():
            self._ends.refresh(ends)
