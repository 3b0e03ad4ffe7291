"""Abandons brokers that do not respond, once the cluster has removed them.

A broker that hangs, or whose machine or network is gone, does not close its connections, so
produce and fetch requests to it would wait for `request_timeout_ms`. The cluster replaces it far
sooner: a controller fences a broker after `broker.session.timeout.ms` (9 s by default) without a
heartbeat, and metadata no longer lists it. So while a response is overdue, the client refreshes its
metadata from other brokers. If it does not list the silent broker, the connections to it are
closed, and its requests are retried as after any lost connection, with the new leaders. A silent
broker that is still listed keeps its requests: it may be waiting for replicas.

Non-obvious: one timer serves all brokers. While no answer is awaited, it is not set.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final

from aiokafka_lite.errors import KafkaConnectionError

if TYPE_CHECKING:
    from aiokafka_lite.cluster.broker import Broker

__all__ = ["SilentBrokers"]

log: Final = logging.getLogger(__name__)

SILENCE: Final = 3.0
"""Seconds without an answer, beyond the time that the request may be held, before the metadata is
refreshed."""
LOOK_EVERY: Final = 1.5
"""Seconds between two checks while answers are awaited."""


class SilentBrokers:
    """Watches the answers that one client awaits from its brokers.

    Args:
        brokers: All brokers of the client.
        request_update: Requests a metadata refresh.
        name: The client's name, for log lines.
    """

    def __init__(
        self,
        brokers: Iterable[Broker],
        request_update: Callable[[], object],
        name: str,
    ) -> None:
        self._brokers = brokers
        self._request_update = request_update
        self._name = name
        self._timer: asyncio.TimerHandle | None = None

    def expect_answer(self) -> None:
        """A request was just sent to a broker; called for each one."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY, self._look)

    def on_refreshed(self, listed: Collection[int]) -> None:
        """Close the connections to silent brokers that new metadata does not list.

        Args:
            listed: The node ids of all live brokers.
        """
        if self._timer is None:
            return  # no answer is awaited
        now = asyncio.get_running_loop().time()
        for broker in tuple(self._brokers):
            if broker.node_id < 0 or broker.node_id in listed:
                continue
            silent_for = broker.silent_for(now)
            if silent_for is not None and silent_for >= SILENCE:
                text = (
                    f"{broker} has not answered for {silent_for:.1f} s, and the cluster no longer "
                    "lists it"
                )
                extra = {"kafka_client_id": self._name, "kafka_broker": broker.node_id}
                log.info("%s: %s", self._name, text, extra=extra)
                broker.disconnect(KafkaConnectionError(text))

    def close(self) -> None:
        """Stop watching. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        silences = [
            silent_for
            for broker in self._brokers
            if (silent_for := broker.silent_for(now)) is not None
        ]
        if not silences:
            return  # the next request sets the timer again
        self.expect_answer()
        if max(silences) >= SILENCE:
            self._request_update()
