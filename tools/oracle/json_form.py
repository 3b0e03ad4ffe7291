"""Message objects in the JSON form of Kafka's own converters."""

from __future__ import annotations

import base64
from typing import Any

from tools.protocol_gen.schema import Field, Struct


def to_json(struct: Struct, value: Any, version: int, extra: Field | None = None) -> dict[str, Any]:
    """One struct as JSON.

    Args:
        struct: Its schema.
        value: The message object.
        version: Only fields of this version are included, as the converters require.
        extra: A field to include although the version lacks it.
    """
    return {
        item.json_name: _field(item, getattr(value, item.name), version, extra)
        for item in struct.fields
        if version in item.versions or item is extra
    }


def _field(item: Field, value: Any, version: int, extra: Field | None) -> Any:
    if value is None:
        return None
    if item.array:
        return [_element(item, element, version, extra) for element in value]
    return _element(item, value, version, extra)


def _element(item: Field, value: Any, version: int, extra: Field | None) -> Any:
    if item.struct is not None:
        return to_json(item.struct, value, version, extra)
    if item.element in ("bytes", "records"):
        return base64.b64encode(value).decode()
    if item.element == "uuid":
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return value
