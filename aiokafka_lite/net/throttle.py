"""Holds requests while a broker throttles the connection (KIP-219).

When a client exceeds a quota, the broker responds at once with `throttle_time_ms` and does not read
from the connection for that time. Requests sent meanwhile would wait in the socket while their
timeouts run. So they are held here until the throttle ends.

Produce and fetch pause by themselves, because they build their next request from the data available
when it is sent. Produce also reports its throttle here, for other requests on the same connection.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from aiokafka_lite.net.in_flight import Pending
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest
from aiokafka_lite.protocol.versions import BrokerVersions

LONGEST_THROTTLE: Final = 60.0
"""Maximum throttle in seconds: far above what quotas produce (a window of 11 s by default), far
below the field's maximum (25 days)."""


def throttle_of(response: Response, versions: BrokerVersions) -> float:
    """Return for how many seconds the broker throttles after a response.

    Args:
        versions: The broker's API versions.
    """
    milliseconds: int = getattr(response, "throttle_time_ms", 0)
    if milliseconds <= 0 or not responds_before_throttling(versions):
        return 0.0
    return min(milliseconds / 1000, LONGEST_THROTTLE)


def responds_before_throttling(versions: BrokerVersions) -> bool:
    """True if the throttle begins with the response; before 2.0 it precedes the response."""
    return versions.supports(ApiVersionsRequest.api_key, 2)


class Throttle:
    """The throttle of one connection.

    Args:
        loop: Its event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until = 0.0  # loop time
        self._timer: asyncio.TimerHandle | None = None
        self._held: deque[Callable[[], None]] = deque()

    def begin(self, seconds: float, in_flight: Iterable[Pending]) -> None:
        """Begin a throttle of this many seconds; a longer one in progress continues.

        Args:
            in_flight: Pending requests. Their deadlines move by as much as the throttle grows, so
                that overlapping throttles do not add up.
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
        """True if requests must wait."""
        return self._timer is not None

    def hold(self, send: Callable[[], None]) -> None:
        """Call `send` when the throttle ends; calls keep their order."""
        self._held.append(send)

    @property
    def held(self) -> int:
        """Number of held requests."""
        return len(self._held)

    def cancel(self) -> None:
        """End the throttle of a closing connection; the held calls run and fail their requests."""
        if self._timer is not None:
            self._timer.cancel()
        self._release()

    def _on_timer(self) -> None:
        if self._loop.time() < self._until:
            # A longer throttle has started, or the clock is slightly behind the timer.
            self._timer = self._loop.call_at(self._until, self._on_timer)
        else:
            self._release()

    def _release(self) -> None:
        self._timer = None
        while self._held:
            self._held.popleft()()
