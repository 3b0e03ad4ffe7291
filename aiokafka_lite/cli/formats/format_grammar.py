"""The format language: literals, escapes and verbs, for reading and for writing records.

    %t topic    %p partition   %o offset      %e leader epoch   %i number of the record, from 1
    %k key      %v value       %h headers     %a attributes     %d timestamp, %T in milliseconds
    %K %V       sizes of key and value, -1 for null              %H number of headers
    %D delivery count of a share group, 0 without one
    %s %S %R    kcat's: value, its size, its size as 4 bytes     %% %{ %}  the characters

A verb may have a modifier in braces: `%v{hex}`, `%K{big32}`, `%d{strftime[%F]}`, `%h{%k=%v }`.
Escapes: \\n \\t \\r \\0 \\e \\\\ \\xNN.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from aiokafka_lite.cli.failures import UsageError

__all__ = ["NUMBERS", "NUMBER_VERBS", "TEXT_VERBS", "Literal", "Part", "Verb", "parse_format"]


class Literal(NamedTuple):
    """Bytes that stand for themselves."""

    data: bytes


class Verb(NamedTuple):
    """A field of a record.

    Attributes:
        name: One letter; kcat's %s and %S are "v" and "V" here, %R is "V" with big32.
        modifier: The text in the braces; "" without any.
        inner: Of "h" with a modifier: the format of one header, in which %k is the name.
    """

    name: str
    modifier: str = ""
    inner: tuple[Literal | Verb, ...] = ()


Part: TypeAlias = Literal | Verb

TEXT_VERBS: Final = frozenset("tkv")
NUMBER_VERBS: Final = frozenset("KVHpoeiTdD")
_ALL: Final = TEXT_VERBS | NUMBER_VERBS | {"h", "a"}

NUMBERS: Final = {
    **{f"big{bits}": (bits // 8, "big") for bits in (8, 16, 32, 64)},
    **{f"little{bits}": (bits // 8, "little") for bits in (8, 16, 32, 64)},
    "byte": (1, "big"),
}
"""Modifiers of numbers in binary: size in bytes, and byte order."""

_ENCODINGS: Final = frozenset({"", "hex", "base64", "base64raw"})
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "e": b"\x1b", "\\": b"\\"}


def parse_format(text: str) -> tuple[Part, ...]:
    """Parse a format into literals and verbs; neighboring literals are joined.

    Raises:
        UsageError: A verb, an escape or a modifier does not exist.
    """
    return _parse(text, text, _ALL)


def _parse(text: str, whole: str, verbs: frozenset[str]) -> tuple[Part, ...]:
    parts: list[Part] = []
    pending = bytearray()
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            data, at = _escape(text, at + 1, whole)
            pending += data
        elif char == "%":
            following = text[at + 1 : at + 2]
            if following and following in "%{}":
                pending += following.encode()
                at += 2
                continue
            if pending:
                parts.append(Literal(bytes(pending)))
                pending.clear()
            verb, at = _verb(text, at + 1, whole, verbs)
            parts.append(verb)
        else:
            pending += char.encode(errors="surrogateescape")  # a byte that is not UTF-8
            at += 1
    if pending:
        parts.append(Literal(bytes(pending)))
    return tuple(parts)


def _escape(text: str, at: int, whole: str) -> tuple[bytes, int]:
    code = text[at : at + 1]
    if code in _ESCAPES:
        return _ESCAPES[code], at + 1
    digits = text[at + 1 : at + 3]
    if code == "x" and len(digits) == 2:
        try:
            return bytes([int(digits, 16)]), at + 3
        except ValueError:
            pass  # reported below, with the whole format
    raise UsageError(
        f"format {whole!r}: \\{code} is not an escape; use \\n \\t \\r \\0 \\e \\\\ or \\xNN"
    )


def _verb(text: str, at: int, whole: str, verbs: frozenset[str]) -> tuple[Verb, int]:
    name = text[at : at + 1]
    at += 1
    modifier = ""
    if text[at : at + 1] == "{":
        modifier, at = _braces(text, at, whole)
    kcat = {"s": "v", "S": "V", "R": "V"}
    if name == "R" and not modifier:
        modifier = "big32"
    canonical = kcat.get(name, name) if verbs is _ALL else name
    if canonical not in verbs:
        known = " ".join(f"%{each}" for each in sorted(verbs))
        raise UsageError(f"format {whole!r}: %{name} is not a verb; use {known} or %%")
    if canonical == "h" and modifier:
        return Verb("h", modifier, _parse(modifier, whole, frozenset("kvKV"))), at
    _check_modifier(canonical, modifier, whole)
    return Verb(canonical, modifier), at


def _braces(text: str, at: int, whole: str) -> tuple[str, int]:
    depth, begin = 0, at + 1
    while at < len(text):
        if text[at] == "%" and text[at + 1 : at + 2] in ("{", "}"):
            at += 2
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if not depth:
            return text[begin : at - 1], at
    raise UsageError(f"format {whole!r}: a brace is not closed")


def _check_modifier(name: str, modifier: str, whole: str) -> None:
    if name in TEXT_VERBS:
        known = modifier in _ENCODINGS or _has_argument(modifier, "unpack") or modifier.isdecimal()
        names = "hex, base64, base64raw, unpack[..] or a size"
    elif name == "a":
        known = modifier in ("", "compression", "timestamp-type")
        names = "timestamp-type"
        known = known and modifier != "compression"
    else:
        hexadecimal = modifier in ("hex4", "hex8", "hex16", "hex32", "hex64")
        known = modifier in ("", "ascii") or modifier in NUMBERS or hexadecimal
        names = "ascii, hex8 to hex64, big8 to big64, little8 to little64 or byte"
        if name == "d":
            known = known or _has_argument(modifier, "strftime")
            names += ", strftime[..]"
    if not known:
        raise UsageError(f"format {whole!r}: %{name} has no modifier {modifier!r}; use {names}")


def _has_argument(modifier: str, name: str) -> bool:
    return modifier.startswith(f"{name}[") and modifier.endswith("]")


def argument(modifier: str) -> str:
    """Return the text in the brackets of a modifier such as strftime[%F]."""
    return modifier[modifier.index("[") + 1 : -1]
