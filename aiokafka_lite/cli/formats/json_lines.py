"""Records as JSON lines, and back, without loss.

    {"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1700000000000,
     "timestamp_type": "create", "key": "table 4", "value": {"base64": "/w=="},
     "headers": [["trace", "ab"], ["trace", null]]}

UTF-8 text is a string, other bytes are {"base64": ...}, null is null. Headers are pairs, because
names repeat. A record of a share group has a `delivery_count`, too. `--value` changes how values
are written.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiokafka_lite.cli.failures import UsageError
from aiokafka_lite.cli.formats.encodings import unpacker
from aiokafka_lite.cli.formats.input_record import InputRecord
from aiokafka_lite.cli.formats.writing import Record, RecordWriter, delivery_count

__all__ = ["VALUES", "json_line_reader", "json_line_writer", "value_writer"]

VALUES: Final = "auto, text, json, hex, base64 or unpack:FORMAT"

_TIMESTAMP_TYPES: Final = {0: "create", 1: "log_append"}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _auto(data: bytes) -> object:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _embedded(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("the value is not JSON (--value json)") from None


def value_writer(kind: str) -> Callable[[bytes], object]:
    """Return the function that converts a record's value to a JSON value.

    Raises:
        UsageError: There is no such kind.
    """
    if kind == "auto":
        return _auto
    if kind == "text":
        return lambda data: data.decode(errors="replace")
    if kind == "json":
        return _embedded
    if kind == "hex":
        return lambda data: {"hex": data.hex()}
    if kind == "base64":
        return lambda data: {"base64": base64.b64encode(data).decode()}
    if kind.startswith("unpack:"):
        unpack = unpacker(kind.removeprefix("unpack:"))
        return lambda data: unpack(data).decode(errors="replace")
    raise UsageError(f"--value {kind}: use {VALUES}")


def json_line_writer(values: str = "auto", *, keys_only: bool = False) -> RecordWriter:
    """Return a function that writes each record as one line of JSON.

    It raises ValueError, naming the record, if a value is not of the kind `values`.

    Args:
        values: How to write values: one of `VALUES`.
        keys_only: Leave the values out.
    """
    of_value = value_writer(values)

    def write(records: Sequence[Record]) -> bytes:
        lines = []
        for record in records:
            line: dict[str, object] = {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": None if record.timestamp < 0 else record.timestamp,
                "timestamp_type": _TIMESTAMP_TYPES.get(record.timestamp_type),
                "key": None if record.key is None else _auto(record.key),
            }
            deliveries = delivery_count(record)
            if deliveries:
                line["delivery_count"] = deliveries
            try:
                if not keys_only:
                    line["value"] = None if record.value is None else of_value(record.value)
                line["headers"] = [
                    [name, None if value is None else _auto(value)]
                    for name, value in record.headers
                ]
                lines.append(_encode(line))  # refuses NaN and infinity, which JSON does not have
            except (ValueError, RecursionError) as error:
                place = f"{record.topic}/{record.partition} at offset {record.offset}"
                raise ValueError(f"{place}: {error}") from error
        lines.append("")
        return "\n".join(lines).encode()

    return write


def json_line_reader(values: str = "auto") -> Callable[[bytes], InputRecord]:
    """Return a function that converts one line to a record.

    It raises ValueError if the line is not such an object. Fields may be missing; `topic`,
    `offset` and `delivery_count` are ignored.

    Args:
        values: "json" if values are embedded JSON, which is written compactly; else "auto".
    """
    of_value = _compact if values == "json" else _bytes_of

    def read(line: bytes) -> InputRecord:
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise ValueError(f"not a JSON object, but {type(fields).__name__}")
        unknown = fields.keys() - _FIELDS
        if unknown:
            raise ValueError(f"unknown field {min(unknown)!r}; use {', '.join(sorted(_FIELDS))}")
        value = fields.get("value")
        return InputRecord(
            key=_bytes_of("key", fields.get("key")),
            value=None if value is None else of_value("value", value),
            headers=_headers_of(fields.get("headers", [])),
            partition=_number_of("partition", fields.get("partition"), 2**31),
            timestamp=_number_of("timestamp", fields.get("timestamp"), 2**63),
        )

    return read


_FIELDS: Final = frozenset(
    {
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestamp_type",
        "delivery_count",
        "key",
        "value",
        "headers",
    }
)


def _compact(_: str, value: object) -> bytes:
    return _encode(value).encode()


def _bytes_of(field: str, value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and len(value) == 1:
        encoding, text = next(iter(value.items()))
        if isinstance(text, str):
            try:
                if encoding == "base64":
                    return base64.b64decode(text, validate=True)
                if encoding == "hex":
                    return bytes.fromhex(text)
            except (ValueError, binascii.Error) as error:
                raise ValueError(f"{field}: invalid {encoding}: {error}") from None
    raise ValueError(
        f'{field} is not a string, null or {{"base64": ..}}'
        + (" (--value json takes any JSON)" if field == "value" else "")
    )


def _headers_of(pairs: Any) -> list[tuple[str, bytes | None]]:
    if pairs is None:
        return []
    headers = []
    if not isinstance(pairs, list):
        raise ValueError("headers is not a list of [name, value]")
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise ValueError("headers is not a list of [name, value]")
        headers.append((pair[0], _bytes_of(f"header {pair[0]!r}", pair[1])))
    return headers


def _number_of(field: str, value: Any, limit: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < limit:
        raise ValueError(f"{field} is not a number from 0")
    return value
