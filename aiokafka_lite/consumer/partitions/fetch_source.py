"""Where one partition is fetched from, and what its broker reported last. Sans-IO.

Only `consumer/fetching/` assigns these attributes. `aiokafka_lite/consumer/partitions/positions.py`
and the buffer call the methods.
"""

from __future__ import annotations

NOWHERE = -1
"""No node: the partition has no known leader."""

UNKNOWN_EPOCH = -1
"""No leader epoch: it is unknown, or the broker does not report one."""


class FetchSource:
    """The source of one assigned partition.

    Args:
        fetch_bytes: Bytes to request.

    Attributes:
        node: The broker it is fetched from, or NOWHERE.
        replica: A follower to fetch from until `replica_until` (KIP-392), or NOWHERE.
        replica_until: Monotonic instant.
        leader_until: Monotonic instant before which it is fetched only from the leader, because a
            follower failed.
        refused_epoch: The leader epoch that a broker last rejected as unknown, or -1.
        retry_at: Monotonic instant before which it is not fetched again; 0: now.
        fetch_bytes: Bytes to request; grows if an old broker has a larger record.
        highwater: Offset after the newest replicated record, or None before the first response.
        last_stable_offset: Last stable offset; -1 in read_uncommitted; None before the first
            response and with brokers before 0.11.
        log_start_offset: First offset that the broker has, or None if it is not reported.
        polled_at: Milliseconds since the epoch of the last fetch response, or None.
        listed_end: End of the readable records, as last looked up for the lag.
        listed_at: When, in seconds since the epoch; 0.0: never.
    """

    __slots__ = (
        "fetch_bytes",
        "highwater",
        "last_stable_offset",
        "leader_until",
        "listed_at",
        "listed_end",
        "log_start_offset",
        "node",
        "polled_at",
        "refused_epoch",
        "replica",
        "replica_until",
        "retry_at",
    )

    def __init__(self, fetch_bytes: int) -> None:
        self.node = NOWHERE
        self.replica = NOWHERE
        self.replica_until = 0.0
        self.leader_until = 0.0
        self.refused_epoch = UNKNOWN_EPOCH
        self.retry_at = 0.0
        self.fetch_bytes = fetch_bytes
        self.highwater: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.polled_at: int | None = None
        self.listed_end = 0
        self.listed_at = 0.0

    def on_new_leader(self) -> None:
        """The leader or its epoch changed: the new one may prefer another follower."""
        self.replica = NOWHERE

    def grow(self, limit: int) -> bool:
        """Double the requested bytes.

        Returns:
            False if `limit` bytes are already requested.
        """
        if self.fetch_bytes >= limit:
            return False
        self.fetch_bytes = min(2 * self.fetch_bytes, limit)
        return True
