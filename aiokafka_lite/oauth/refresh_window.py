"""When a token is renewed: Java's refresh window, as a function of time.

Source: KIP-255 (`sasl.login.refresh.*`), and `ExpiringCredentialRefreshingLogin` for the order in
which its limits apply.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["RETRY_SECONDS", "refresh_at"]

FACTOR: Final = 0.8  # sasl.login.refresh.window.factor
JITTER: Final = 0.05  # sasl.login.refresh.window.jitter
MIN_PERIOD: Final = 60.0  # sasl.login.refresh.min.period.seconds
BUFFER: Final = 300.0  # sasl.login.refresh.buffer.seconds

RETRY_SECONDS: Final = 10.0
"""Pause after a renewal that failed while the old token is still valid."""


def refresh_at(issued: float, expires: float, now: float, random: float) -> float:
    """Return when to renew a token.

    Brokers end a session with its token, and clients re-authenticate after 85 to 95 % of a session.
    So the renewal, at 80 to 85 % of the token's life, comes first.

    Args:
        issued, expires, now: Seconds since the epoch; `expires` may be infinite.
        random: From 0 to 1, so that many clients do not renew at once.
    """
    if math.isinf(expires):
        return expires
    by_factor = issued + (expires - issued) * (FACTOR + JITTER * random)
    if expires - now < MIN_PERIOD + BUFFER:
        return by_factor
    return max(min(by_factor, expires - BUFFER), now + MIN_PERIOD)
