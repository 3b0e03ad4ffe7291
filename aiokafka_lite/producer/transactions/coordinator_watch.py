"""Leaving a coordinator that keeps silent, when another one has taken its place.

A broker that hangs, or is cut off, answers nothing and closes nothing; its requests would wait for
`request_timeout_ms`. The cluster replaces it far sooner. So after some seconds of silence others
are asked who coordinates; while that is the silent one still, its answer is waited for.

Non-obvious: the steps of a transaction are many and short. So one timer serves them all: it looks
whether the step of that moment is old, and runs out when there is none.
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
"""Seconds without an answer until others are asked, and between two such questions."""
_FIND_FOR: Final = 5.0
"""Seconds of one such question."""

_Leave: TypeAlias = Callable[[KafkaConnectionError], object]


class SilenceWatch:
    """Watches the one answer that a transaction waits for.

    Args:
        cluster: Whom to ask.
        tasks: Owner of those who ask.
        loop: In which all this is called.
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
        """A coordinator was asked something.

        Args:
            place: Whose coordinator.
            node_id: Who it was.
            answer: What is waited for.
            leave: Called if another one turns out to have its place; has the answer fail.
        """
        self._watched = (place, node_id, answer, leave)
        self._since = self._loop.time()
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_later(SILENT_FOR, self._look)

    def close(self) -> None:
        """Watch no more. Idempotent."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if self._watched is None or self._watched[2].done():
            return  # the next step begins anew
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
            log.debug("Coordinator lookup failed for transactional id %r: %s", key, error)
            found = node_id
        if found != node_id and not answer.done():
            told = f"broker {node_id} keeps silent, and {found} coordinates {key!r} now"
            leave(KafkaConnectionError(told))
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_later(SILENT_FOR, self._look)
