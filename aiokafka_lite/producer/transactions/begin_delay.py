"""Adapts the delay between a transaction's end and the next one's first request: sans-IO.

With `transaction.version` 2 the coordinator answers a transaction's end before its markers are
written. Until they are, the broker holds back requests of the next transaction and checks again
only after 20 ms (add.partitions.to.txn.retry.backoff.ms), although the markers take a few
milliseconds. This module estimates that time from late answers, and delays the first request by it:
the gap between two transactions becomes 5 ms instead of 25.

Non-obvious:
- An application that pauses at least that long between two transactions is not delayed.
- A broker that is slow for other reasons answers late regardless of the delay. Then some hundred
  transactions are not delayed.
"""

import math
from typing import Final

__all__ = ["BeginDelay"]

PARKED: Final = 0.020
"""Minimum seconds until a request that the broker held back is answered."""
STEP: Final = 0.001
"""Seconds added to the delay after each request that was held back."""
LONGEST: Final = 0.010
"""Maximum delay in seconds: half of the time it can save."""
PROMPT: Final = 20
"""Prompt answers after which the delay is reduced by half a step."""
VAIN: Final = 3
"""Requests in a row held back despite the maximum delay, after which the delay is suspended."""
REST: Final = 200
"""Transactions without a delay after that many such requests."""


class BeginDelay:
    """Adapts the delay after each transaction, for the next. All times are of one monotonic
    clock."""

    __slots__ = ("_ended_at", "_prompt", "_rest", "_sent_at", "_vain", "hold")

    def __init__(self) -> None:
        self.hold = 0.0
        """The delay in seconds."""
        self._ended_at = -math.inf
        self._sent_at = 0.0
        self._prompt = 0  # prompt answers since the last change
        self._vain = 0  # in a row
        self._rest = 0  # transactions left

    def on_ended(self, now: float) -> None:
        """The coordinator answered that a transaction has ended."""
        self._ended_at = now

    def opens_at(self) -> float:
        """Return when the first request of a transaction may be sent."""
        return self._ended_at + self.hold

    def on_sent(self, now: float) -> None:
        """The first request of a transaction is sent."""
        self._sent_at = now

    def on_answered(self, now: float) -> None:
        """The first request was answered for the first time, with any result."""
        if self._rest:
            self._rest -= 1
            return
        waited = self._sent_at - self._ended_at
        if waited > 2 * LONGEST:
            return  # the previous transaction had completely ended before
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
