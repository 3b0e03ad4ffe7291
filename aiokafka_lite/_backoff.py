"""Exponential backoff between retries, with jitter and an upper bound (KIP-580)."""

import random as _random
from collections.abc import Callable

from aiokafka_lite.errors import KafkaConfigurationError


class Backoff:
    """Delays that grow from `base` to `maximum`, with `jitter` so that clients spread out.

    Immutable: the caller counts the failures.

    Args:
        base: Delay in seconds after the first failure.
        maximum: Upper bound in seconds, jitter included. A maximum below `base` lowers `base` (as
            Kafka's `retry.backoff.max.ms` does).
        multiplier: Growth per failure, at least 1.
        jitter: Fraction by which a delay varies either way, in [0, 1).

    Raises:
        KafkaConfigurationError: A value is out of range.
    """

    __slots__ = ("base", "jitter", "maximum", "multiplier")

    def __init__(
        self, base: float, maximum: float, multiplier: float = 2.0, jitter: float = 0.2
    ) -> None:
        # Written so that NaN is rejected as well.
        if not 0 <= base < float("inf"):
            raise KafkaConfigurationError(f"backoff base must be >= 0 seconds, not {base!r}")
        if not 0 <= maximum < float("inf"):
            raise KafkaConfigurationError(f"backoff maximum must be >= 0 seconds, not {maximum!r}")
        if not 1 <= multiplier < float("inf"):
            raise KafkaConfigurationError(f"backoff multiplier must be >= 1, not {multiplier!r}")
        if not 0 <= jitter < 1:
            raise KafkaConfigurationError(f"backoff jitter must be in [0, 1), not {jitter!r}")
        self.base = min(base, maximum)
        self.maximum = maximum
        self.multiplier = multiplier
        self.jitter = jitter

    def delay(self, failures: int, random: Callable[[], float] = _random.random) -> float:
        """Return the seconds to wait after a number of consecutive failures.

        Args:
            failures: 0 (nothing failed: no delay), 1 (about `base`), 2 ...
            random: Returns floats in [0, 1).

        Returns:
            Seconds in [0, `maximum`].
        """
        if failures <= 0 or self.base == 0:
            return 0.0
        try:
            mean = min(self.base * self.multiplier ** (failures - 1), self.maximum)
        except OverflowError:
            mean = self.maximum
        return min(mean * (1 + self.jitter * (2 * random() - 1)), self.maximum)

    def __repr__(self) -> str:
        return (
            f"Backoff(base={self.base}, maximum={self.maximum}, "
            f"multiplier={self.multiplier}, jitter={self.jitter})"
        )
