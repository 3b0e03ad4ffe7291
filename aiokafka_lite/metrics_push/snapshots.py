"""Snapshots of a client's metrics for another thread, taken in the client's event loop.

Non-obvious:
- The loop does only what needs its data, in slices: at most `SLICE` partitions in one pass. Names
  and text are made in the calling thread.
- A client of this thread's running loop is read directly: waiting for the loop would never end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from time import monotonic
from typing import Final, Protocol, TypeVar, runtime_checkable

from aiokafka_lite.structs import Health, HealthState, TopicPartition

__all__ = ["Client", "Snapshot", "SnapshotTimeoutError", "take"]

SLICE: Final = 250
"""Partitions that one pass of the event loop reads: well under a millisecond."""

Metrics = Mapping[str, float | None]
_T = TypeVar("_T")


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

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""

    def partition_metrics(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, dict[str, float | None]]:
        """Return the metrics of partitions, without those that are not assigned."""


class SnapshotTimeoutError(Exception):
    """The event loop of a client did not respond."""


@dataclass(slots=True)
class Snapshot:
    """The metrics of one client.

    Attributes:
        health: The client's health.
        metrics: Its metrics, under Kafka's names.
        nodes: Those of each broker, by node id.
        partitions: Those of each partition.
    """

    health: Health
    metrics: Metrics
    nodes: Mapping[int, Metrics]
    partitions: dict[TopicPartition, dict[str, float | None]] = field(default_factory=dict)


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
    deadline = monotonic() + timeout
    snapshot, partitions = _in_loop(loop, partial(_client_part, client), deadline)
    if snapshot is None:
        return None
    if isinstance(client, Partitioned):
        waiting = iter(partitions)
        while part := tuple(islice(waiting, SLICE)):
            read = partial(client.partition_metrics, *part)
            snapshot.partitions.update(_in_loop(loop, read, deadline))
    return snapshot


def _client_part(client: Client) -> tuple[Snapshot | None, list[TopicPartition]]:
    health = client.health()
    if health.state is HealthState.STOPPED:
        return None, []
    partitions = list(client.assignment()) if isinstance(client, Partitioned) else []
    return Snapshot(health, client.metrics(), client.node_metrics()), partitions


def _in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], _T], deadline: float) -> _T:
    if asyncio._get_running_loop() is loop:
        return function()
    result: Future[_T] = Future()

    def run() -> None:
        if not result.set_running_or_notify_cancel():
            return  # the caller has stopped waiting
        try:
            result.set_result(function())
        except BaseException as error:
            result.set_exception(error)
            if not isinstance(error, Exception):
                raise  # it is for the loop: KeyboardInterrupt

    try:
        loop.call_soon_threadsafe(run)
        return result.result(max(deadline - monotonic(), 0.0))
    except (RuntimeError, TimeoutError) as error:
        if result.done() and not result.cancelled() and result.exception() is error:
            raise  # of the client
        result.cancel()
        raise SnapshotTimeoutError(
            f"the event loop of the client does not respond: {error!r}"
        ) from error
