"""OpenTelemetry's MetricsData v1 as protobuf bytes: only what KIP-714 needs, without a dependency.

Non-obvious:
- Points with the same name are one metric, in the order of their first point: or two, if some of
  them are monotonic and others are not.
- A protobuf message has its length before it, so `finish` builds it from the inside out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from struct import Struct
from typing import Final, NamedTuple

from aiokafka_lite._version import __version__

__all__ = ["Attributes", "Encoder", "Point"]

Attributes = tuple[tuple[str, str], ...]
"""Names and values, sorted by name."""

_DELTA: Final = 1
_CUMULATIVE: Final = 2

# A protobuf tag is (number of the field << 3) | wire type: 0 varint, 1 eight bytes, 2 a length and
# so many bytes. The numbers are those of opentelemetry/proto/metrics/v1/metrics.proto.
_START: Final = b"\x11"  # NumberDataPoint.start_time_unix_nano = 2
_TIME_AND_DOUBLE: Final = Struct("<BQBd")
_TIME_TAG: Final = 0x19  # NumberDataPoint.time_unix_nano = 3
_DOUBLE_TAG: Final = 0x21  # NumberDataPoint.as_double = 4
_U64: Final = Struct("<Q")


class Point(NamedTuple):
    """One measurement.

    Attributes:
        name: OTLP's name of the metric.
        value: The value; a total since the client's start, if the metric is monotonic.
        attributes: What distinguishes points with the same name.
        monotonic: True for a total that only grows.
        start_ns: When the counting of a difference began, in nanoseconds since the epoch; None: at
            the client's start.
    """

    name: str
    value: float
    attributes: Attributes = ()
    monotonic: bool = False
    start_ns: int | None = None


class Encoder:
    """Encodes one MetricsData.

    Args:
        start_ns: When the client started, in nanoseconds since the epoch.
        now_ns: When the values were read.
        delta: Monotonic values are differences since the start of each; False: totals.
    """

    def __init__(self, *, start_ns: int, now_ns: int, delta: bool) -> None:
        self._start = _START + _U64.pack(start_ns)
        self._now = now_ns
        self._temporality = _DELTA if delta else _CUMULATIVE
        self._points: dict[tuple[str, bool], list[bytes]] = {}  # by metric; True: monotonic
        self.count = 0

    def add(self, point: Point) -> None:
        """Add a point; a value that is not finite is omitted."""
        if not isfinite(point.value):
            return
        encoded = _TIME_AND_DOUBLE.pack(_TIME_TAG, self._now, _DOUBLE_TAG, point.value)
        if point.monotonic:
            since = point.start_ns
            encoded = (self._start if since is None else _START + _U64.pack(since)) + encoded
        if point.attributes:
            encoded += _attributes(point.attributes, 7)
        encoded = _field(1, encoded)
        self._points.setdefault((point.name, point.monotonic), []).append(encoded)
        self.count += 1

    def finish(self, resource: Mapping[str, str]) -> bytes:
        """Return the whole message.

        Args:
            resource: The attributes of the client.
        """
        scope = _field(1, b"aiokafka_lite") + _field(2, __version__.encode())
        parts = [_field(1, scope)]
        for (name, monotonic), points in self._points.items():
            data = b"".join(points)
            if monotonic:  # Sum: aggregation_temporality = 2, is_monotonic = 3
                data = _field(7, data + bytes((0x10, self._temporality, 0x18, 1)))
            else:
                data = _field(5, data)  # Gauge
            parts.append(_field(2, _field(1, name.encode()) + data))
        attributes = _attributes(tuple(sorted(resource.items())), 1)
        return _field(1, _field(1, attributes) + _field(2, b"".join(parts)))


@lru_cache(maxsize=4096)
def _attributes(attributes: Attributes, number: int) -> bytes:
    """KeyValues in the field with this number; the values are strings."""
    return b"".join(
        _field(number, _field(1, key.encode()) + _field(2, _field(1, value.encode())))
        for key, value in attributes
    )


def _field(number: int, data: bytes) -> bytes:
    """A field of bytes, text or a message: tag, length, content."""
    size = len(data)
    if size < 0x80:
        return bytes((number << 3 | 2, size)) + data
    out = bytearray((number << 3 | 2,))
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out) + data
