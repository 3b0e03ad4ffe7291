"""How long a broker does not listen to a client after a request (KIP-219). No I/O.

A test says so by `set`; or a quota is exceeded: the rate over the last eleven windows of a second
is compared with the quota, as Kafka's `ClientQuotaManager` does, and the client has to wait until
the rate would be what the quota allows. The rates go by the cluster's clock.
"""

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
"""A client that only takes too much of the broker's time waits one window at most."""

_Which: TypeAlias = tuple[int | None, str | None, str | None]  # API, client id, principal

_BYTE_RATES: Final = {ApiKey.PRODUCE: PRODUCER_RATE, ApiKey.FETCH: CONSUMER_RATE}


class Throttle(NamedTuple):
    """How long, in ms; and whether a fetch's answer has to be empty, as its bytes were too many."""

    ms: int
    empties_fetch: bool = False


class _Window:
    """What happened in one second, or a little more."""

    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.last_ms = start_ms
        self.total = 0.0


class _Rate:
    """How much a second, over the last windows (Kafka's `Rate`)."""

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
        """After how long the rate is down to `bound` if nothing more happens."""
        windows = self._windows
        while windows and now_ms - windows[0].last_ms >= WINDOWS * WINDOW_MS:
            windows.popleft()
        if not windows:
            return 0
        elapsed_ms = now_ms - windows[0].start_ms
        # The first seconds count as if all windows but one had passed: no alarm at the first batch.
        elapsed_ms += max(WINDOWS - 1 - elapsed_ms // WINDOW_MS, 0) * WINDOW_MS
        rate = sum(window.total for window in windows) / (elapsed_ms / 1000)
        return max(round((rate - bound) / bound * elapsed_ms), 0)


class Throttles:
    """Of one cluster. While `active` is False nothing needs to be asked here.

    Args:
        quotas: The table.
        clock: The cluster's.
    """

    def __init__(self, quotas: QuotaTable, clock: Clock) -> None:
        self._quotas = quotas
        self._clock = clock
        self._told: dict[_Which, int] = {}
        self._rates: dict[tuple[str, str, str], _Rate] = {}

    @property
    def active(self) -> bool:
        return bool(self._told) or not self._quotas.is_empty

    def set(
        self,
        seconds: float,
        *,
        api_key: int | None = None,
        client_id: str | None = None,
        principal: str | None = None,
    ) -> None:
        """Throttle every request that fits, from now on; responses are whole nevertheless.

        Args:
            seconds: How long the broker does not listen to the connection after each; 0 ends it.
            api_key: Only requests of this API.
            client_id: Only of clients that call themselves so.
            principal: Only of this principal ("User:alice").

        Raises:
            ValueError: A negative time.
        """
        if seconds < 0:
            raise ValueError(f"seconds={seconds}: must not be negative")
        self._told.pop((api_key, client_id, principal), None)
        if seconds:
            self._told[api_key, client_id, principal] = round(seconds * 1000)

    def clear(self) -> None:
        """End what `set` began; quotas stay."""
        self._told.clear()

    def largest_fetch(self, user: str, client_id: str) -> int | None:
        """Bytes that a fetch may have at once, so that it can ever be answered; None for any."""
        limit = self._quotas.limit(CONSUMER_RATE, user, client_id)
        return None if limit is None else int(limit.bound * (WINDOWS - 1) * WINDOW_MS / 1000)

    def charge(
        self,
        api_key: int,
        principal: str,
        client_id: str,
        size: int,
        busy: float,
    ) -> Throttle:
        """Count a request, and say how long its client has to wait after it.

        Args:
            api_key: Its API.
            principal: Who asked.
            client_id: As it calls itself.
            size: Bytes of a produce request, or of a fetch's response.
            busy: Seconds that the broker worked on it.
        """
        asked = (api_key, client_id, principal)
        told = max((ms for which, ms in self._told.items() if _fits(which, asked)), default=0)
        if self._quotas.is_empty:
            return Throttle(told)
        user = principal.partition(":")[2]
        quota = self._charge(REQUEST_PERCENTAGE, user, client_id, busy * 100)
        quota = min(quota, LONGEST_FOR_REQUESTS_MS)
        by_bytes = _BYTE_RATES.get(ApiKey(api_key))
        if by_bytes is not None:
            quota = max(quota, self._charge(by_bytes, user, client_id, size))
        if quota and api_key == ApiKey.FETCH:
            # The answer will be empty, so its bytes do not count.
            self._charge(CONSUMER_RATE, user, client_id, -size)
        return Throttle(max(told, quota), empties_fetch=quota > 0)

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
