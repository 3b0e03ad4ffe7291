"""Option files of other tools: Java's client.properties, and kcat's or librdkafka's kcat.conf.

Both are lines of name=value. They differ in the meaning of a backslash: in a Java file, it begins
an escape; in kcat's, it is literal. A file with an option name that only librdkafka has counts as
kcat's.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from aiokafka_lite.cli.failures import UsageError

__all__ = ["read_option_file"]

_LIBRDKAFKA: Final = frozenset(
    {
        "metadata.broker.list",
        "sasl.kerberos.keytab",
        "sasl.kerberos.principal",
        "sasl.mechanisms",
        "sasl.password",
        "sasl.username",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.key.location",
        "enable.ssl.certificate.verification",
        "api.version.request",
        "broker.version.fallback",
    }
)
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
# A name ends at an unescaped =, : or blank.
_PAIR: Final = re.compile(r"((?:\\.|[^\\=:\s])+)\s*(?:[=:]\s*|\s+|$)(.*)", re.DOTALL)


def read_option_file(path: str) -> dict[str, str]:
    """Return the options of a file, by the names in the file.

    Raises:
        UsageError: The file cannot be read, or a line is not name=value.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"-F {path}: {getattr(error, 'strerror', None) or error}") from error
    plain = _read_plain(text)
    if plain is not None and not _LIBRDKAFKA.isdisjoint(plain):
        return plain
    return _read_java(path, text)


def _read_plain(text: str) -> dict[str, str] | None:
    """Read kcat's format; None if a line does not fit."""
    found: dict[str, str] = {}
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            return None
        found[name.strip()] = value.strip()
    return found


def _read_java(path: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _PAIR.fullmatch(line)
        if match is None:
            # The line is not shown: it may hold a password.
            raise UsageError(f"-F {path}: line {number} is not name=value")
        name, value = (_ESCAPE.sub(_unescaped, part) for part in match.groups())
        found[name] = value.rstrip(" \t") if name != "sasl.jaas.config" else value
    return found


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines with their numbers, without comments; one that ends with a backslash continues."""
    out: list[tuple[int, str]] = []
    joined, begun = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.lstrip()
        if not joined and (not line or line[0] in "#!"):
            continue
        begun = begun or number
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            joined += line[:-1]
            continue
        out.append((begun, joined + line))
        joined, begun = "", 0
    if joined:
        out.append((begun, joined))
    return out


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] == "u" and len(code) == 5:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)
