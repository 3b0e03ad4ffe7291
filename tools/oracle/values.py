"""Messages filled with values: random ones, and the edges of every type."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import import_module
from typing import Any
from uuid import UUID

from aiokafka_lite.protocol import message as wire
from aiokafka_lite.protocol.primitives import ZERO_UUID
from tools.protocol_gen.emit_module import module_name
from tools.protocol_gen.schema import Field, Message, Struct

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
WORDS = (
    "",
    "a",
    "orders",
    "group-7",
    "ß",
    "Ω≈ç√",
    "日本語",
    "🦊🚀",
    "x" * 126,
    "y" * 127,
    "z" * 300,
)
TAG_VALUES = (b"", b"\x00", b"later", bytes(range(200)))

Style = str
STYLES: tuple[Style, ...] = ("default", "empty", "null", "minimum", "maximum", "long")
"""Edges that a whole message is filled with; anything else is random."""


def class_of(message: Message, struct: Struct) -> type[wire.Struct]:
    """The generated class of a struct."""
    module = import_module(f"aiokafka_lite.protocol.messages.{module_name(message)}")
    found: type[wire.Struct] = getattr(module, struct.python_name)
    return found


class Filler:
    """Fills messages for one version.

    Args:
        message: The schema.
        version: Only fields that it has are filled.
        chance: Source of randomness.
        style: One of STYLES, or "random".
        unknown_tags: True to add tagged fields that no schema defines.
    """

    def __init__(
        self,
        message: Message,
        version: int,
        chance: random.Random,
        style: Style = "random",
        unknown_tags: bool = False,
    ) -> None:
        self.message = message
        self.version = version
        self.chance = chance
        self.style = style
        self.unknown_tags = unknown_tags and version in message.flexible

    def message_value(self) -> Any:
        return self.struct(self.message.root, depth=0)

    def struct(self, struct: Struct, depth: int) -> Any:
        made: Any = class_of(self.message, struct)()
        for item in struct.fields:
            if self.version in item.versions:
                setattr(made, item.name, self.field(item, depth))
        if self.unknown_tags and self.chance.random() < 0.7:
            known = [item.tag for item in struct.fields if item.tag is not None]
            first = max(known, default=-1) + 1
            tags = self.chance.sample([first, first + 1, first + 130, 2**31 - 2], 2)
            made.unknown_tagged_fields = {tag: self.chance.choice(TAG_VALUES) for tag in tags}
        return made

    def field(self, item: Field, depth: int) -> Any:
        if self.style == "default":
            blank: Any = class_of(self.message, self._owner(item))()
            value = getattr(blank, item.name)
            return value if value is not None or self._nullable(item) else self.blank(item)
        if self._nullable(item) and (
            self.style == "null" or (self.style == "random" and self.chance.random() < 0.25)
        ):
            return None
        if item.array:
            return [self.element(item, depth + 1) for _ in range(self.count(depth))]
        return self.element(item, depth)

    def blank(self, item: Field) -> Any:
        return [] if item.array else b"" if item.element in ("bytes", "records") else ""

    def count(self, depth: int) -> int:
        if self.style in ("empty", "default"):
            return 0
        if self.style == "long":
            return 130 if depth == 0 else 1
        return 1 if self.style != "random" else self.chance.choice((0, 1, 1, 2, 3))

    def element(self, item: Field, depth: int) -> Any:
        if item.struct is not None:
            return self.struct(item.struct, depth)
        return SCALARS.get(item.element, Filler.integer)(self, item.element)

    def _nullable(self, item: Field) -> bool:
        return self.version in item.nullable

    def _owner(self, item: Field) -> Struct:
        for struct in [*self.message.structs, self.message.root]:
            if any(item is other for other in struct.fields):
                return struct
        raise LookupError(item.schema_name)

    # One value of each type

    def integer(self, kind: str) -> int:
        low, high = (0, 65535) if kind == "uint16" else _signed_range(BITS[kind])
        if self.style in ("minimum", "maximum"):
            return low if self.style == "minimum" else high
        if self.style in ("empty", "null"):
            return 0
        return self.chance.choice(
            (self.chance.randint(low, high), 0, 1, low, high, -1 if low else 1)
        )

    def boolean(self, _kind: str) -> bool:
        if self.style in ("minimum", "maximum"):
            return self.style == "maximum"
        return self.chance.random() < 0.5

    def double(self, _kind: str) -> float:
        edges = {"minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308}
        return edges.get(self.style, self.chance.choice((0.0, 0.5, -1e-300, self.chance.random())))

    def text(self, _kind: str) -> str:
        if self.style in ("empty", "minimum", "null"):
            return ""
        if self.style == "maximum":
            return "é" * 200
        return self.chance.choice(WORDS)

    def binary(self, _kind: str) -> bytes:
        if self.style in ("empty", "minimum", "null"):
            return b""
        return self.chance.randbytes(self.chance.choice((0, 1, 16, 126, 127, 200)))

    def uuid(self, _kind: str) -> UUID:
        if self.style in ("empty", "minimum", "null"):
            return ZERO_UUID
        return UUID(bytes=b"\xff" * 16 if self.style == "maximum" else self.chance.randbytes(16))


def _signed_range(bits: int) -> tuple[int, int]:
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


SCALARS: dict[str, Callable[[Filler, str], Any]] = {
    "bool": Filler.boolean,
    "float64": Filler.double,
    "string": Filler.text,
    "bytes": Filler.binary,
    "records": Filler.binary,
    "uuid": Filler.uuid,
}
