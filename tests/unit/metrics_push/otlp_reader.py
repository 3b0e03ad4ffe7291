"""Reads OTLP: a decoder for protobuf's wire format, independent of the encoder."""

import struct
from collections import defaultdict
from typing import Any

from aiokafka_lite._version import __version__

Message = dict[int, list[Any]]


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def parsed(data: bytes) -> Message:
    """The fields of a protobuf message by number; lengths are checked."""
    found: Message = defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
            found[tag >> 3].append(value)
        elif tag & 7 == 1:
            found[tag >> 3].append(data[at : at + 8])
            at += 8
        else:
            assert tag & 7 == 2
            size, at = varint(data, at)
            assert at + size <= len(data)
            found[tag >> 3].append(data[at : at + size])
            at += size
    return found


def attributes(fields: list[bytes]) -> dict[str, str]:
    pairs = [parsed(field) for field in fields]
    return {pair[1][0].decode(): parsed(pair[2][0])[1][0].decode() for pair in pairs}


def decoded(data: bytes) -> tuple[dict[str, str], list[tuple[str, int, list[Any], Message]]]:
    """(resource, [(name, field of the kind, points, the kind's message)])"""
    (resource_metrics,) = parsed(data)[1]
    resource = parsed(resource_metrics)
    (scope_metrics,) = resource[2]
    scope = parsed(scope_metrics)
    assert parsed(scope[1][0]) == {1: [b"aiokafka_lite"], 2: [__version__.encode()]}
    metrics = []
    for each in scope[2]:
        metric = parsed(each)
        (kind,) = metric.keys() - {1}
        body = parsed(metric[kind][0])
        points = []
        for one in body[1]:
            point = parsed(one)
            (value,) = struct.unpack("<d", point[4][0])
            start = struct.unpack("<Q", point[2][0])[0] if point[2] else None
            (now,) = struct.unpack("<Q", point[3][0])
            points.append((value, start, now, attributes(point[7])))
        metrics.append((metric[1][0].decode(), kind, points, body))
    return attributes(parsed(resource[1][0])[1]), metrics
