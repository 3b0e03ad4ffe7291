"""Decides when the client abandons the known brokers and bootstraps again.

There are three triggers (KIP-899, KIP-1102):
- No known broker answers. The refresh itself then asks the bootstrap addresses.
- No broker has returned metadata for `metadata_recovery_rebootstrap_trigger_ms` since the first
  attempt. This bounds a refresh that waits for many silent brokers one after another.
- A broker returns REBOOTSTRAP_REQUIRED: to a metadata request, or because another broker or
  cluster now uses its address (KIP-1242).

Time is an argument.
"""

from __future__ import annotations

from aiokafka_lite.errors import KafkaError, RebootstrapRequiredError
from aiokafka_lite.net.handshake import OtherBrokerError


class Recovery:
    """Judges one cluster.

    Args:
        trigger: Seconds without metadata after which the client bootstraps again; None: it never
            does, for any reason (`metadata_recovery_strategy="none"`).
    """

    def __init__(self, trigger: float | None) -> None:
        self.enabled = trigger is not None
        self._trigger = trigger
        self._since: float | None = None  # the first attempt after the last metadata

    def on_attempt(self, now: float) -> None:
        """A metadata refresh begins to ask a broker."""
        if self._since is None:
            self._since = now

    def on_metadata(self) -> None:
        """A broker returned metadata, or the client bootstraps again."""
        self._since = None

    def overdue(self, now: float) -> float | None:
        """Return for how many seconds metadata requests have failed, if that is too long."""
        if self._trigger is None or self._since is None or now - self._since < self._trigger:
            return None
        return now - self._since

    def is_required(self, error: KafkaError) -> bool:
        """True if a broker's error says that the client should bootstrap again."""
        return self.enabled and isinstance(error, RebootstrapRequiredError | OtherBrokerError)
