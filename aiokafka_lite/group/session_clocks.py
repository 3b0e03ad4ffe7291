"""The times a member lives by: heartbeats and the session (KIP-62), and the application's polls."""

from __future__ import annotations


class SessionClock:
    """When to heartbeat, and from when on a coordinator that answers nothing is looked for again.

    The session is counted from when an answered request was *sent*, or from when the coordinator
    was found, whichever is later.

    Args:
        timeout: Of the session, in seconds.
        interval: Between heartbeats, in seconds.
    """

    __slots__ = ("expires_at", "heartbeat_at", "interval", "timeout")

    def __init__(self, timeout: float, interval: float) -> None:
        self.timeout = timeout
        self.interval = interval
        self.heartbeat_at = 0.0
        """Loop time of the next heartbeat."""
        self.expires_at = 0.0
        """Loop time when the coordinator counts as unknown unless it answers before."""

    def restart(self, now: float) -> None:
        """The coordinator begins the session anew: it has answered a JoinGroup or SyncGroup."""
        self.expires_at = now + self.timeout
        self.heartbeat_at = now + self.interval

    def on_sent(self, now: float) -> None:
        """A heartbeat is sent."""
        self.heartbeat_at = now + self.interval

    def on_answered(self, sent_at: float) -> None:
        """A heartbeat was answered by a coordinator that knows this member."""
        self.expires_at = max(self.expires_at, sent_at + self.timeout)

    def on_coordinator(self, now: float) -> None:
        """The coordinator was found: give it a whole session to answer."""
        self.expires_at = max(self.expires_at, now + self.timeout)

    def on_failed(self, now: float, pause: float) -> None:
        """A heartbeat came to nothing: another one soon."""
        self.heartbeat_at = now + pause


class PollClock:
    """Tracks whether the application still polls (max.poll.interval).

    Args:
        interval: Most seconds between two polls.
    """

    __slots__ = ("_interval", "expires_at")

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self.expires_at: float | None = None
        """Loop time when the application is too slow; None: it waits for records now."""

    def on_poll(self, now: float, *, waiting: bool) -> None:
        """The application polls for records, or (waiting) goes on asking."""
        self.expires_at = None if waiting else now + self._interval

    def expired(self, now: float) -> bool:
        """True if the last poll was too long ago."""
        return self.expires_at is not None and now >= self.expires_at
