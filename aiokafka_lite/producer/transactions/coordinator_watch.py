"""Leaves an unresponsive coordinator once another broker has replaced it.

A broker that hangs or is cut off does not answer and does not close its connections, so requests
would wait for `request_timeout_ms`. The cluster replaces the broker far sooner. After some seconds
without an answer, this looks up the coordinator again; if it is still the same broker, its answer
is awaited further.

Non-obvious: the steps of a transaction are many and short, so one timer serves them all. When it
fires, it checks the age of the current step; without a step, it is not set again.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.retry import find_coordinator
from aiokafka_lite.errors import KafkaConnectionError, KafkaError
from aiokafka_lite.net.in_flight import Promise
from aiokafka_lite.producer.transactions.transaction_steps import Place

__all__ = ["SilenceWatch"]

log = logging.getLogger(__name__)

SILENT_FOR: Final = 3.0
"""Seconds without an answer before the coordinator is looked up, and between two look-ups."""
_FIND_FOR: Final = 5.0
"""Timeout of one look-up, in seconds."""

_Leave: TypeAlias = Callable[[KafkaConnectionError], object]


class SilenceWatch:
    """Watches the one answer that a transaction waits for.

    Args:
        cluster: Looks up the coordinator.
        tasks: Owns the tasks that look it up.
        loop: The event loop.
    """

    def __init__(self, cluster: Cluster, tasks: TaskOwner, loop: asyncio.AbstractEventLoop) -> None:
        self._cluster = cluster
        self._tasks = tasks
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._watched: tuple[Place, int, Promise, _Leave] | None = None
        self._since = 0.0  # loop time
        self._closed = False

    def watch(self, place: Place, node_id: int, answer: Promise, leave: _Leave) -> None:
        """Watch the answer to a request that was just sent to a coordinator.

        Args:
            place: The coordinator's transactional id or group.
            node_id: The coordinator's node id.
            answer: The answer that is awaited.
            leave: Called if another broker is the coordinator now; fails the answer.
        """
        self._watched = (place, node_id, answer, leave)
        self._since = self._loop.time()
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_later(SILENT_FOR, self._look)

    def close(self) -> None:
        """Stop watching. Idempotent."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if self._watched is None or self._watched[2].done():
            return  # the next step sets the timer again
        left = self._since + SILENT_FOR - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._tasks.spawn(self._ask_others(*self._watched), "ask others who coordinates")

    async def _ask_others(self, place: Place, node_id: int, answer: Promise, leave: _Leave) -> None:
        kind, key = place
        try:
            deadline = self._loop.time() + _FIND_FOR
            found = (await find_coordinator(self._cluster, key, kind, deadline)).node_id
        except KafkaError as error:
            text = "%s: coordinator lookup failed for %r: %s"
            log.debug(text, self._cluster.client_id, key, error)
            found = node_id
        if found != node_id and not answer.done():
            text = f"broker {node_id} does not respond, and {found} coordinates {key!r} now"
            leave(KafkaConnectionError(text))
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_later(SILENT_FOR, self._look)
