"""Counts the requests, bytes and connections of one broker, for metrics.

Connections update the object of their broker: a few additions for each request and response, none
per record. Nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aiokafka_lite._stats import Recent

__all__ = ["Traffic", "connection_metrics"]

_MILLISECONDS: Final = 1000.0


class _Window:
    """The responses of a time window."""

    __slots__ = ("bytes_in", "bytes_out", "created", "latency", "longest_latency", "responses")

    def __init__(self) -> None:
        self.responses = self.bytes_in = self.bytes_out = self.created = 0
        self.latency = self.longest_latency = 0.0  # seconds from a request to its response


class Traffic:
    """The traffic with one broker, over all its connections, past and present.

    Attributes:
        requests: Requests sent.
        responses: Responses received.
        bytes_out: Bytes of requests.
        bytes_in: Bytes of responses.
        created: Connections opened.
        closed: Connections that ended, for any reason.
        failed: Attempts to connect that failed.
        lost: Open connections that were lost.
    """

    __slots__ = (
        "_recent",
        "bytes_in",
        "bytes_out",
        "closed",
        "created",
        "failed",
        "lost",
        "requests",
        "responses",
    )

    def __init__(self) -> None:
        self.requests = self.responses = self.bytes_out = self.bytes_in = 0
        self.created = self.closed = self.failed = self.lost = 0
        self._recent = Recent(_Window)

    def on_request(self, size: int, now: float) -> None:
        """A request of this many bytes is sent."""
        recent = self._recent
        if now >= recent.over:
            recent.turn(now)
        self.requests += 1
        self.bytes_out += size
        recent.new.bytes_out += size

    def on_response(self, size: int, latency: float, now: float) -> None:
        """A response of this many bytes arrived; the latency is in seconds."""
        recent = self._recent
        if now >= recent.over:
            recent.turn(now)
        self.responses += 1
        self.bytes_in += size
        window = recent.new
        window.responses += 1
        window.bytes_in += size
        window.latency += latency
        if latency > window.longest_latency:
            window.longest_latency = latency

    def on_connected(self, opening: Traffic, now: float) -> None:
        """A connection was opened; `opening` counted its requests so far."""
        self.created += 1
        self.absorb(opening)
        self._recent.turn(now)
        self._recent.new.created += 1

    def absorb(self, other: Traffic) -> None:
        """Add the totals of another object, which is discarded."""
        self.requests += other.requests
        self.responses += other.responses
        self.bytes_out += other.bytes_out
        self.bytes_in += other.bytes_in
        self.created += other.created
        self.closed += other.closed
        self.failed += other.failed
        self.lost += other.lost

    def metrics(self, now: float) -> dict[str, float | None]:
        """Return the metrics of this broker under the names of Kafka's node metrics.

        Latencies are of the last 30 to 60 seconds, in milliseconds; None without a response.
        """
        self._recent.turn(now)
        new, old = self._recent.new, self._recent.old
        elapsed = self._recent.elapsed(now)
        responses = new.responses + old.responses
        longest = max(new.longest_latency, old.longest_latency) * _MILLISECONDS
        average = (new.latency + old.latency) / responses * _MILLISECONDS if responses else None
        return {
            "connection-creation-total": float(self.created),
            "connection-failed-total": float(self.failed),
            "connection-lost-total": float(self.lost),
            "incoming-byte-rate": (new.bytes_in + old.bytes_in) / elapsed,
            "incoming-byte-total": float(self.bytes_in),
            "outgoing-byte-rate": (new.bytes_out + old.bytes_out) / elapsed,
            "outgoing-byte-total": float(self.bytes_out),
            "request-latency-avg": average,
            "request-latency-max": longest if responses else None,
            "request-total": float(self.requests),
            "response-total": float(self.responses),
        }

    def creation_rate(self, now: float) -> float:
        """Return the connections opened per second in the last 30 to 60 seconds."""
        recent = self._recent
        recent.turn(now)
        return (recent.new.created + recent.old.created) / recent.elapsed(now)


def connection_metrics(traffic: Iterable[Traffic], now: float) -> dict[str, float | None]:
    """Return Kafka's metrics of the connections of a client.

    Args:
        traffic: That of each broker, bootstrap addresses included.
        now: In loop time.
    """
    created = closed = bytes_in = 0
    rate = 0.0
    for each in traffic:
        created += each.created
        closed += each.closed
        bytes_in += each.bytes_in
        rate += each.creation_rate(now)
    return {
        "connection-close-total": float(closed),
        "connection-count": float(created - closed),
        "connection-creation-rate": rate,
        "connection-creation-total": float(created),
        "incoming-byte-total": float(bytes_in),
    }
