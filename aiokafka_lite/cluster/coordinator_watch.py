"""Abandons a coordinator that does not respond, once another broker has replaced it.

A broker that hangs or is cut off does not answer and does not close its connections, so requests
would wait for their full timeout: `request_timeout_ms`, or minutes for a JoinGroup. The cluster
replaces the broker far sooner. So while a response is overdue, the client asks other brokers for
the coordinator. If it is still the same broker, the client keeps waiting for its response.

Non-obvious: the requests of a transaction are many and short, so one timer serves all answers. When
it fires, it checks the age of the oldest answer that is missing; without one, it is not set again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Final, NamedTuple, Protocol, TypeAlias

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import find_coordinator
from aiokafka_lite.errors import KafkaConnectionError, KafkaError

__all__ = ["CoordinatorWatch"]

log: Final = logging.getLogger(__name__)

FIND_FOR: Final = 5.0
"""Timeout of one look-up, in seconds."""

_WHAT: Final = {
    CoordinatorKind.GROUP: "group",
    CoordinatorKind.TRANSACTION: "transactional id",
    CoordinatorKind.SHARE: "share group",
}

_Leave: TypeAlias = Callable[[KafkaConnectionError], object]


class AwaitedAnswer(Protocol):
    """An answer that is awaited, such as a future."""

    def done(self) -> bool:
        """True if it has arrived, or nothing awaits it."""


class _Watched(NamedTuple):
    """An answer that may be missing."""

    since: float  # loop time of the request
    kind: CoordinatorKind
    key: str
    node_id: int
    answer: AwaitedAnswer
    leave: _Leave


class CoordinatorWatch:
    """Watches the answers that one client awaits from its coordinators.

    Args:
        cluster: Looks up the coordinators. A new one is cached there.
        interval: Seconds without an answer before the coordinator is looked up, and between two
            look-ups.
        spawn: Starts a task with a name.
        loop: The event loop.
    """

    def __init__(
        self,
        cluster: Cluster,
        interval: float,
        spawn: Callable[[Coroutine[object, object, None], str], object],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._cluster = cluster
        self._interval = interval
        self._spawn = spawn
        self._loop = loop
        self._watched: list[_Watched] = []
        self._timer: asyncio.TimerHandle | None = None
        self._looking = False  # a look-up is in progress
        self._closed = False

    def watch(
        self, kind: CoordinatorKind, key: str, node_id: int, answer: AwaitedAnswer, leave: _Leave
    ) -> None:
        """Watch the answer to a request that was just sent to a coordinator.

        Args:
            kind, key: The group or the transactional id.
            node_id: The coordinator's node id.
            answer: The answer that is awaited.
            leave: Called if another broker is now the coordinator; fails the answer.
        """
        if self._closed:
            return
        self._forget_answered()
        self._watched.append(_Watched(self._loop.time(), kind, key, node_id, answer, leave))
        self._arm(self._interval)

    def close(self) -> None:
        """Stop watching. Idempotent."""
        self._closed = True
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget_answered(self) -> None:
        self._watched = [each for each in self._watched if not each.answer.done()]

    def _arm(self, seconds: float) -> None:
        if self._timer is None and not self._looking and not self._closed:
            self._timer = self._loop.call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._forget_answered()
        if not self._watched:
            return  # the next request sets the timer again
        overdue = self._loop.time() - self._interval
        silent = {(each.kind, each.key) for each in self._watched if each.since <= overdue}
        if silent:
            self._looking = True
            self._spawn(self._look_up(silent), "look up a silent coordinator")
        else:
            self._arm(self._watched[0].since - overdue)

    async def _look_up(self, silent: Collection[tuple[CoordinatorKind, str]]) -> None:
        """Ask other brokers for coordinators, and abandon those that were replaced."""
        try:
            for kind, key in silent:
                await self._look_up_one(kind, key)
        finally:
            self._looking = False
            self._forget_answered()
            if self._watched:
                self._arm(self._interval)

    async def _look_up_one(self, kind: CoordinatorKind, key: str) -> None:
        cluster = self._cluster
        try:
            node = await find_coordinator(cluster, key, kind, self._loop.time() + FIND_FOR)
        except KafkaError as error:
            text = "%s: coordinator lookup failed for %s %s: %s"
            log.debug(text, cluster.client_id, _WHAT[kind], key, error)
            return
        for each in tuple(self._watched):
            if (each.kind, each.key) == (kind, key) and each.node_id != node.node_id:
                cluster.learn_node(node)
                cluster.coordinators.set(kind, key, node.node_id)
                self._leave(each, node.node_id)

    def _leave(self, watched: _Watched, found: int) -> None:
        if not watched.answer.done():
            text = f"broker {watched.node_id} is no longer the coordinator of "
            text += f"{_WHAT[watched.kind]} {watched.key}: broker {found} is"
            log.info("%s: %s", self._cluster.client_id, text)
            watched.leave(KafkaConnectionError(text))
