"""The time for which a broker mutes a client's connection after a request (KIP-219). No I/O.

A test sets it with `set`, or the client exceeds a quota: as in Kafka's `ClientQuotaManager`, the
rate over the last eleven one-second windows is compared with the quota, and the client is muted
until the rate is within it. Rates use the cluster's clock.
"""

import math
from collections import deque
from typing import Final, NamedTuple, TypeAlias

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing.clock import Clock
from aiokafka_lite.testing.quotas import (
    CONSUMER_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    QuotaTable,
)

__all__ = ["Throttle", "Throttles"]

WINDOW_MS: Final = 1000  # quota.window.size.seconds
WINDOWS: Final = 11  # quota.window.num
LONGEST_FOR_REQUESTS_MS: Final = WINDOW_MS
"""A client that exceeds only the request time quota is muted for one window at most."""

_Which: TypeAlias = tuple[int | None, str | None, str | None]  # API, client id, principal

_BYTE_RATES: Final = {ApiKey.PRODUCE: PRODUCER_RATE, ApiKey.FETCH: CONSUMER_RATE}


class Throttle(NamedTuple):
    """The mute time in ms; and True if a fetch response must be empty because of its size."""

    ms: int
    empties_fetch: bool = False


class _Window:
    """The amount in one second, or slightly more."""

    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.last_ms = start_ms
        self.total = 0.0


class _Rate:
    """The amount per second over the last windows (Kafka's `Rate`)."""

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        self._windows: deque[_Window] = deque()

    def record(self, amount: float, now_ms: int) -> None:
        windows = self._windows
        if not windows or now_ms - windows[-1].start_ms >= WINDOW_MS:
            windows.append(_Window(now_ms))
        windows[-1].total += amount
        windows[-1].last_ms = now_ms

    def wait_ms(self, bound: float, now_ms: int) -> int:
        """Return the time in ms until the rate falls to `bound` if nothing is recorded."""
        windows = self._windows
        while windows and now_ms - windows[0].last_ms >= WINDOWS * WINDOW_MS:
            windows.popleft()
        if not windows:
            return 0
        elapsed_ms = now_ms - windows[0].start_ms
        # At first, count all windows but one as elapsed, so the first batch does not exceed it.
        elapsed_ms += max(WINDOWS - 1 - elapsed_ms // WINDOW_MS, 0) * WINDOW_MS
        rate = sum(window.total for window in windows) / (elapsed_ms / 1000)
        if not rate > bound:  # as in Kafka, a bound may be infinite or not a number
            return 0
        return round((rate - bound) / bound * elapsed_ms)


class Throttles:
    """The throttles of one cluster; callers may skip it while `active` is False.

    Args:
        quotas: The table of quotas.
        clock: The cluster's clock.
    """

    def __init__(self, quotas: QuotaTable, clock: Clock) -> None:
        self._quotas = quotas
        self._clock = clock
        self._set: dict[_Which, int] = {}
        self._rates: dict[tuple[str, str, str], _Rate] = {}

    @property
    def active(self) -> bool:
        return bool(self._set) or not self._quotas.is_empty

    def set(
        self,
        seconds: float,
        *,
        api_key: int | None = None,
        client_id: str | None = None,
        principal: str | None = None,
    ) -> None:
        """Throttle every matching request from now on; responses are still complete.

        Args:
            seconds: How long to mute after each matching request; 0 removes the throttle.
            api_key: Matches only requests of this API.
            client_id: Matches only clients with this client id.
            principal: Matches only clients of this principal ("User:alice").

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError(f"seconds={seconds}: must not be negative")
        self._set.pop((api_key, client_id, principal), None)
        if seconds:
            self._set[api_key, client_id, principal] = round(seconds * 1000)

    def clear(self) -> None:
        """Remove the throttles from `set`; quotas stay."""
        self._set.clear()

    def largest_fetch(self, user: str, client_id: str) -> int | None:
        """Return the maximum bytes of a fetch that the quota can ever allow; None for no limit."""
        limit = self._quotas.limit(CONSUMER_RATE, user, client_id)
        if limit is None or math.isnan(limit.bound):
            return None
        return int(limit.bound * (WINDOWS - 1) * WINDOW_MS / 1000)

    def charge(
        self,
        api_key: int,
        principal: str,
        client_id: str,
        size: int,
        busy: float,
    ) -> Throttle:
        """Record a request and return its throttle.

        Args:
            api_key: The API of the request.
            principal: The client's principal.
            client_id: The client's id.
            size: Bytes of a produce request, or of a fetch's response.
            busy: Handling time in seconds.
        """
        asked = (api_key, client_id, principal)
        set_ms = max((ms for which, ms in self._set.items() if _fits(which, asked)), default=0)
        if self._quotas.is_empty:
            return Throttle(set_ms)
        user = principal.partition(":")[2]
        quota = self._charge(REQUEST_PERCENTAGE, user, client_id, busy * 100)
        quota = min(quota, LONGEST_FOR_REQUESTS_MS)
        by_bytes = _BYTE_RATES.get(ApiKey(api_key))
        if by_bytes is not None:
            quota = max(quota, self._charge(by_bytes, user, client_id, size))
        if quota and api_key == ApiKey.FETCH:
            # The response will be empty, so its bytes do not count.
            self._charge(CONSUMER_RATE, user, client_id, -size)
        return Throttle(max(set_ms, quota), empties_fetch=quota > 0)

    def _charge(self, key: str, user: str, client_id: str, amount: float) -> int:
        limit = self._quotas.limit(key, user, client_id)
        if limit is None:
            return 0
        rate = self._rates.setdefault((key, limit.user, limit.client_id), _Rate())
        now_ms = self._clock.now_ms()
        rate.record(amount, now_ms)
        return rate.wait_ms(limit.bound, now_ms)


def _fits(which: _Which, asked: _Which) -> bool:
    return all(wanted in (None, given) for wanted, given in zip(which, asked, strict=True))
