"""A member's clocks: heartbeats, the session (KIP-62), and the application's polls."""

from __future__ import annotations


class SessionClock:
    """When to send a heartbeat, and when to look for a coordinator that does not answer.

    The session starts when an answered request was *sent*, or when the coordinator was found,
    whichever is later.

    Args:
        timeout: Session timeout, in seconds.
        interval: Time between heartbeats, in seconds.
    """

    __slots__ = ("expires_at", "heartbeat_at", "interval", "timeout")

    def __init__(self, timeout: float, interval: float) -> None:
        self.timeout = timeout
        self.interval = interval
        self.heartbeat_at = 0.0
        """Loop time of the next heartbeat."""
        self.expires_at = 0.0
        """Loop time when the coordinator counts as unknown, unless it answers before."""

    def restart(self, now: float) -> None:
        """The coordinator restarted the session: it answered a JoinGroup or SyncGroup."""
        self.expires_at = now + self.timeout
        self.heartbeat_at = now + self.interval

    def on_sent(self, now: float) -> None:
        """A heartbeat is sent."""
        self.heartbeat_at = now + self.interval

    def on_answered(self, sent_at: float) -> None:
        """A coordinator that knows this member answered a heartbeat."""
        self.expires_at = max(self.expires_at, sent_at + self.timeout)

    def on_coordinator(self, now: float) -> None:
        """The coordinator was found; it has a whole session timeout to answer."""
        self.expires_at = max(self.expires_at, now + self.timeout)

    def on_failed(self, now: float, pause: float) -> None:
        """A heartbeat failed; send another after a pause."""
        self.heartbeat_at = now + pause


class PollClock:
    """Tracks whether the application still polls (max.poll.interval).

    Args:
        interval: Maximum seconds between two polls.
    """

    __slots__ = ("_interval", "expires_at")

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self.expires_at: float | None = None
        """Loop time when the poll interval expires; None: the application waits for records."""

    def on_poll(self, now: float, *, waiting: bool) -> None:
        """The application polls for records; `waiting`: it waits until the next call."""
        self.expires_at = None if waiting else now + self._interval

    def expired(self, now: float) -> bool:
        """True if the last poll was too long ago."""
        return self.expires_at is not None and now >= self.expires_at
