"""Holding requests back while the broker does not listen (KIP-219).

A broker whose quota a client exceeds answers at once, tells for how long it will not read from the
connection (`throttle_time_ms`), and does not. What is sent meanwhile would lie in the socket, and
its time would run; so it stays here, and leaves when the broker listens again.

Produce and fetch, whose next request is made of what has come by then, pause by themselves; produce
says so, for what goes the same way.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from aiokafka_lite.net.in_flight import Pending
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.protocol.versions import BrokerVersions

LONGEST_THROTTLE: Final = 60.0
"""Seconds for which a broker's wish is heeded: far above what its quotas come to (a window of 11 s
by default), far below what the field could say (25 days)."""


def throttle_of(response: Response, versions: BrokerVersions) -> float:
    """For how many seconds the broker does not listen after a response.

    Args:
        versions: What it speaks.
    """
    told: int = getattr(response, "throttle_time_ms", 0)
    if told <= 0 or not tells_before_it_waits(versions):
        return 0.0
    return min(told / 1000, LONGEST_THROTTLE)


def tells_before_it_waits(versions: BrokerVersions) -> bool:
    """Whether a broker's wait begins with its answer; before 2.0 it is over by then."""
    return versions.supports(ApiKey.API_VERSIONS, 2)


class Throttle:
    """The pauses of one connection.

    Args:
        loop: Its event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until = 0.0  # loop time
        self._timer: asyncio.TimerHandle | None = None
        self._held: deque[Callable[[], None]] = deque()

    def begin(self, seconds: float, in_flight: Iterable[Pending]) -> None:
        """The broker does not listen for so long from now on; a longer pause goes on.

        Args:
            in_flight: Unanswered requests. Their deadlines move by as much as the pause grows, so
                that overlapping pauses do not add up.
        """
        now = self._loop.time()
        until = now + seconds
        if until > self._until:
            longer = until - max(self._until, now)
            for pending in in_flight:
                pending.deadline += longer
            self._until = until
            if self._timer is None:
                self._timer = self._loop.call_at(until, self._on_timer)

    def holds(self) -> bool:
        """Whether a request has to wait."""
        return self._timer is not None

    def hold(self, send: Callable[[], None]) -> None:
        """Call `send` when the pause is over, in the order in which they came."""
        self._held.append(send)

    @property
    def held(self) -> int:
        """Requests that wait."""
        return len(self._held)

    def cancel(self) -> None:
        """The connection closes: nothing that is held will be sent, and each is called to see."""
        if self._timer is not None:
            self._timer.cancel()
        self._release()

    def _on_timer(self) -> None:
        if self._loop.time() < self._until:
            # A longer pause has begun; or the clock is a little behind the timer.
            self._timer = self._loop.call_at(self._until, self._on_timer)
        else:
            self._release()

    def _release(self) -> None:
        self._timer = None
        while self._held:
            self._held.popleft()()
