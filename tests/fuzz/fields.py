"""The integer fields of responses, their extreme values, and how to set them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from struct import Struct as Layout
from typing import Any, Final, NamedTuple

from aiokafka_lite.protocol.message import Response, Struct
from aiokafka_lite.protocol.messages.fetch import PartitionData
from aiokafka_lite.protocol.messages.join_group import JoinGroupResponseMember
from aiokafka_lite.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from aiokafka_lite.protocol.messages.sync_group import SyncGroupResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.record.header import write_crc

BITS: Final = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}
_FIELD: Final = re.compile(
    r"^ {4}(\w+): (\[\])?(\w+)(?:, versions (\d+)(?:-(\d+))?)?[,.]", re.MULTILINE
)
_NEAR: Final = ("-1", "+1", "+5", "+1000", "+100000")

# The fields of a batch's header, by name; "count" and the like as `BatchHeader` has them.
_HEADER: Final = {
    "base_offset": (0, "q"),
    "batch_length": (8, "i"),
    "leader_epoch": (12, "i"),
    "magic": (16, "b"),
    "attributes": (21, "h"),
    "last_offset_delta": (23, "i"),
    "base_timestamp": (27, "q"),
    "max_timestamp": (35, "q"),
    "producer_id": (43, "q"),
    "producer_epoch": (51, "h"),
    "base_sequence": (53, "i"),
    "record_count": (57, "i"),
}
_BITS_OF: Final = {"b": 8, "h": 16, "i": 32, "q": 64}
TOO_MANY_DIGITS: Final = -5000
"""Stands for a number of 5000 digits, more than `int()` takes."""
_ITERATIONS: Final = re.compile(rb"i=\d+")


class Place(NamedTuple):
    """One integer field of one API's responses.

    Attributes:
        api_key: The API.
        path: The names of the fields that contain it, and its own.
        bits: Its size; 0 for decimal digits.
    """

    api_key: int
    path: tuple[str, ...]
    bits: int

    @property
    def name(self) -> str:
        return self.path[-1]

    def __str__(self) -> str:
        return f"{ApiKey(self.api_key).name}.{'.'.join(self.path)}"


class _Field(NamedTuple):
    name: str
    many: bool
    kind: str
    versions: range


@cache
def _fields(struct: type[Struct]) -> tuple[_Field, ...]:
    """What the generated docstring says about a struct's fields."""
    found = []
    for name, many, kind, first, last in _FIELD.findall(inspect.getdoc(struct) or ""):
        low = int(first) if first else 0
        high = int(last) if last else (low if first else 0x7FFF)
        found.append(_Field(name, bool(many), kind, range(low, high + 1)))
    return tuple(found)


def places(response: Response, version: int) -> Iterator[tuple[Place, int]]:
    """Each integer field that the response's version has, and its value."""
    for path, bits, get, _ in _walk(response, version, ()):
        yield Place(response.api_key, path, bits), get()


def put(response: Response, place: Place, value: int | str) -> int:
    """Set a field wherever it occurs (a str is added to its value); return how often it occurs."""
    count = 0
    for path, bits, get, set_ in list(_walk(response, None, ())):
        if path == place.path:
            wanted = get() + int(value) if isinstance(value, str) else value
            if bits:
                wanted = max(-(2 ** (bits - 1)), min(wanted, 2 ** (bits - 1) - 1))
            set_(wanted)
            count += 1
    return count


def candidates(place: Place, true: int) -> list[int | str]:
    """Values to set a field to: its extremes, their neighbours, and those of the true value."""
    if not place.bits:
        return [0, 1, 4095, 10**7, TOO_MANY_DIGITS]
    most = 2 ** (place.bits - 1) - 1
    values: dict[int, None] = dict.fromkeys((-most - 1, -2, -1, 0, 1, most - 1, most))
    if place.bits == 64:
        values |= dict.fromkeys((2**31 - 1, 2**31))
    near = [each for each in _NEAR if abs(true + int(each)) <= most]
    return [*(value for value in values if value != true), *near]


_Found = tuple[tuple[str, ...], int, Callable[[], int], Callable[[int], None]]


def _walk(struct: Struct, version: int | None, path: tuple[str, ...]) -> Iterator[_Found]:
    for name, many, kind, versions in _fields(type(struct)):
        if version is not None and version not in versions:
            continue
        value = getattr(struct, name)
        here = (*path, name)
        if kind in BITS:
            if many:
                if value:
                    yield here, BITS[kind], _first(value), _all_of(struct, name)
            else:
                yield here, BITS[kind], _getter(struct, name), _setter(struct, name)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Struct):
                    yield from _walk(each, version, here)
        elif isinstance(value, Struct):
            yield from _walk(value, version, here)
        else:
            yield from _inside(struct, name, here)


def _inside(struct: Struct, name: str, path: tuple[str, ...]) -> Iterator[_Found]:
    """Numbers within fields that are plain bytes in the schema."""
    if isinstance(struct, PartitionData) and name == "records" and struct.records:
        if len(struct.records) >= 61 and struct.records[16] == 2:
            for field, (at, code) in _HEADER.items():
                get, set_ = _in_header(struct, at, code)
                yield (*path, field), _BITS_OF[code], get, set_
    elif isinstance(struct, SyncGroupResponse) and name == "assignment" and struct.assignment:
        yield from _in_assignment(struct, path)
    elif isinstance(struct, JoinGroupResponseMember) and name == "metadata" and struct.metadata:
        yield from _in_bytes(struct, name, path, {"version": (0, "h"), "topics": (2, "i")})
    elif (
        isinstance(struct, SaslAuthenticateResponse)
        and name == "auth_bytes"
        and _ITERATIONS.search(struct.auth_bytes)
    ):
        yield (*path, "iterations"), 0, lambda: 4096, _set_iterations(struct)


def _getter(struct: Struct, name: str) -> Callable[[], int]:
    return lambda: getattr(struct, name)


def _setter(struct: Struct, name: str) -> Callable[[int], None]:
    return lambda value: setattr(struct, name, value)


def _first(values: list[int]) -> Callable[[], int]:
    return lambda: values[0]


def _all_of(struct: Struct, name: str) -> Callable[[int], None]:
    return lambda value: setattr(struct, name, [value] * len(getattr(struct, name)))


def _in_header(
    struct: PartitionData, at: int, code: str
) -> tuple[Callable[[], int], Callable[[int], None]]:
    layout = Layout(f">{code}")

    def get() -> int:
        assert struct.records is not None
        return int(layout.unpack_from(struct.records, at)[0])

    def set_(value: int) -> None:
        assert struct.records is not None
        records = bytearray(struct.records)
        size = int.from_bytes(records[8:12], "big", signed=True) + 12
        layout.pack_into(records, at, value)
        if size <= len(records):
            write_crc(records, 0, size)
        struct.records = records

    return get, set_


def _in_assignment(struct: SyncGroupResponse, path: tuple[str, ...]) -> Iterator[_Found]:
    """Version, count of topics, and the first topic's count of partitions and first partition."""
    name_length = int.from_bytes(struct.assignment[6:8], "big")
    at = 8 + name_length
    layouts = {"version": (0, "h"), "topics": (2, "i")}
    if len(struct.assignment) >= at + 8:
        layouts |= {"partitions": (at, "i"), "partition": (at + 4, "i")}
    yield from _in_bytes(struct, "assignment", path, layouts)


def _in_bytes(
    struct: Any, name: str, path: tuple[str, ...], layouts: dict[str, tuple[int, str]]
) -> Iterator[_Found]:
    for field, (at, code) in layouts.items():
        layout = Layout(f">{code}")

        def get(layout: Layout = layout, at: int = at) -> int:
            return int(layout.unpack_from(getattr(struct, name), at)[0])

        def set_(value: int, layout: Layout = layout, at: int = at) -> None:
            changed = bytearray(getattr(struct, name))
            layout.pack_into(changed, at, value)
            setattr(struct, name, bytes(changed))

        yield (*path, field), _BITS_OF[code], get, set_


def _set_iterations(struct: SaslAuthenticateResponse) -> Callable[[int], None]:
    def set_(value: int) -> None:
        digits = b"9" * 5000 if value == TOO_MANY_DIGITS else b"%d" % value
        struct.auth_bytes = _ITERATIONS.sub(b"i=" + digits, struct.auth_bytes)

    return set_
