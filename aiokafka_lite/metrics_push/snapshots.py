"""Snapshots of a client's metrics for another thread, taken in the client's event loop.

Non-obvious:
- The loop only reads its data, in slices of at most `SLICE` partitions. The calling thread makes
  names and text. It waits for the loop once, because a switch between threads costs more than a
  slice.
- A client of this thread's running loop is read directly: waiting for that loop would never end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, runtime_checkable

from aiokafka_lite.structs import Health, HealthState, TopicPartition

__all__ = ["Client", "Snapshot", "SnapshotTimeoutError", "take"]

SLICE: Final = 250
"""Partitions that one pass of the event loop reads: well under a millisecond."""

Metrics = Mapping[str, float | None]
PartitionLag: TypeAlias = tuple[TopicPartition, float | None, float | None]
"""A partition, its `records-lag` and its `records-lead`."""


class Client(Protocol):
    """What producers, consumers and share consumers have in common."""

    def health(self) -> Health:
        """Return the client's health."""

    def metrics(self) -> dict[str, float | None]:
        """Return the client's metrics."""

    def node_metrics(self) -> dict[int, dict[str, float | None]]:
        """Return the metrics of each broker."""


@runtime_checkable
class Partitioned(Protocol):
    """A client with partitions: a consumer."""

    def _observe(
        self, slice_size: int
    ) -> Generator[None, None, tuple[dict[str, float | None], list[PartitionLag]]]:
        """Read the client's metrics and those of its partitions; the loop may run at each yield."""


class SnapshotTimeoutError(Exception):
    """The event loop of a client did not respond."""


@dataclass(slots=True)
class Snapshot:
    """The metrics of one client.

    Attributes:
        health: The client's health.
        metrics: Its metrics, under Kafka's names.
        nodes: Those of each broker, by node id.
        partitions: The lag and lead of each partition.
    """

    health: Health
    metrics: Metrics
    nodes: Mapping[int, Metrics]
    partitions: list[PartitionLag]


def take(client: Client, loop: asyncio.AbstractEventLoop, timeout: float) -> Snapshot | None:
    """Take a snapshot, from any thread.

    Args:
        client: The client.
        loop: Its event loop.
        timeout: Seconds to wait for the loop.

    Returns:
        None if the client is stopped.

    Raises:
        SnapshotTimeoutError: The loop is blocked, not running, or closed.
    """
    steps = _read(client)
    if asyncio._get_running_loop() is loop:
        return _finish(steps)
    result: Future[Snapshot | None] = Future()

    def step() -> None:
        if result.cancelled():
            return  # the caller has stopped waiting
        try:
            next(steps)
        except StopIteration as end:
            if result.set_running_or_notify_cancel():
                result.set_result(end.value)
        except BaseException as error:
            if result.set_running_or_notify_cancel():
                result.set_exception(error)
            if not isinstance(error, Exception):
                raise  # the loop must handle it: KeyboardInterrupt
        else:
            loop.call_soon(step)

    try:
        loop.call_soon_threadsafe(step)
        return result.result(timeout)
    except (RuntimeError, TimeoutError) as error:
        if result.done() and not result.cancelled() and result.exception() is error:
            raise  # of the client
        result.cancel()
        raise SnapshotTimeoutError(
            f"the event loop of the client does not respond: {error!r}"
        ) from error


def _read(client: Client) -> Generator[None, None, Snapshot | None]:
    """Take a snapshot in slices; the loop may run at each yield."""
    health = client.health()
    if health.state is HealthState.STOPPED:
        return None
    if isinstance(client, Partitioned):
        metrics, partitions = yield from client._observe(SLICE)
    else:
        metrics, partitions = client.metrics(), []
    return Snapshot(health, metrics, client.node_metrics(), partitions)


def _finish(steps: Generator[None, None, Snapshot | None]) -> Snapshot | None:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            snapshot: Snapshot | None = end.value
            return snapshot
