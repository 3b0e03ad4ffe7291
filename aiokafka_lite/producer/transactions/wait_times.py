"""How long the application waited for its transactions, under Kafka's names."""

from typing import Final

__all__ = ["TransactionTimes"]

_NANOSECONDS: Final = 1e9


class TransactionTimes:
    """Total seconds spent in the calls, failed ones included.

    Attributes:
        init: Getting the producer id.
        begin: `begin_transaction`.
        send_offsets: `send_offsets_to_transaction`.
        commit: `commit_transaction`.
        abort: `abort_transaction`.
    """

    __slots__ = ("abort", "begin", "commit", "init", "send_offsets")

    def __init__(self) -> None:
        self.init = self.begin = self.send_offsets = self.commit = self.abort = 0.0

    def snapshot(self) -> dict[str, float]:
        """Return the current totals, in nanoseconds."""
        return {
            "txn-abort-time-ns-total": self.abort * _NANOSECONDS,
            "txn-begin-time-ns-total": self.begin * _NANOSECONDS,
            "txn-commit-time-ns-total": self.commit * _NANOSECONDS,
            "txn-init-time-ns-total": self.init * _NANOSECONDS,
            "txn-send-offsets-time-ns-total": self.send_offsets * _NANOSECONDS,
        }
