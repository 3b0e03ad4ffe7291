"""How long to wait after a transaction's end before the next one's first request: sans-IO.

With `transaction.version` 2 a transaction's end is answered before its markers are written. What
comes meanwhile of the next transaction is kept by the broker, which looks again after 20 ms
(add.partitions.to.txn.retry.backoff.ms), though the markers take a few. So this learns how many,
from answers that came so late, and has the first request wait that long: from one transaction to
the next 5 ms instead of 25.

Non-obvious:
- An application that lets that much time pass between two transactions waits for nothing.
- A broker that is slow for other reasons answers late, however long was waited: then no wait is
  tried for some hundred transactions.
"""

import math
from typing import Final

__all__ = ["Patience"]

PARKED: Final = 0.020
"""Seconds after which the answer to a request that was kept comes at the earliest."""
STEP: Final = 0.001
"""Seconds that are waited longer after each request that was kept."""
LONGEST: Final = 0.010
"""Seconds that are waited at most: half of what is to be saved."""
PROMPT: Final = 20
"""Answers in time after which half a step less is tried."""
VAIN: Final = 3
"""Requests in a row that were kept though the longest time was waited: that is not what helps."""
REST: Final = 200
"""Transactions for which nothing is waited then."""


class Patience:
    """Learns from one transaction for the next. All instants are of one monotonic clock."""

    __slots__ = ("_ended_at", "_prompt", "_rest", "_sent_at", "_vain", "hold")

    def __init__(self) -> None:
        self.hold = 0.0
        """Seconds to wait."""
        self._ended_at = -math.inf
        self._sent_at = 0.0
        self._prompt = 0  # answers since the last change
        self._vain = 0  # in a row
        self._rest = 0  # transactions left

    def on_ended(self, now: float) -> None:
        """The coordinator said that a transaction has ended."""
        self._ended_at = now

    def opens_at(self) -> float:
        """When the first request of a transaction may be sent."""
        return self._ended_at + self.hold

    def on_sent(self, now: float) -> None:
        """It is sent."""
        self._sent_at = now

    def on_answered(self, now: float) -> None:
        """It was answered, once; whatever with."""
        if self._rest:
            self._rest -= 1
            return
        waited = self._sent_at - self._ended_at
        if waited > 2 * LONGEST:
            return  # nothing of the transaction before was left to wait for
        if now - self._sent_at < PARKED:
            self._vain = 0
            self._prompt += 1
            if self._prompt == PROMPT:
                self._prompt = 0
                self.hold = max(self.hold - STEP / 2, 0.0)
            return
        self._prompt = 0
        if self.hold < LONGEST:
            self.hold = min(self.hold + STEP, LONGEST)
            return
        self._vain += 1
        if self._vain == VAIN:
            self._vain = 0
            self.hold = 0.0
            self._rest = REST
