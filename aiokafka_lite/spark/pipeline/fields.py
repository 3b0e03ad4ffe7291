"""Reads a specification's tables: each value by name and type; unknown names are errors.

An error names its place (`sink.checkpoint`) and, for a misspelled name, the closest known one:
specifications are written by hand, so unknown names must not be ignored. Errors never contain the
contents of a table, which may include a password.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import NoReturn

__all__ = ["Fields", "SpecError", "flattened"]


class SpecError(ValueError):
    """An invalid specification; the message names the place and the expected value."""


class Fields:
    """Reads one table of a specification field by field.

    Args:
        table: The value in the file.
        where: Its place, for messages: `source`, `steps[2]`.
    """

    def __init__(self, table: object, where: str) -> None:
        self.where = where
        if not isinstance(table, Mapping):
            raise SpecError(f"{where} must be a table, not {_kind(table)}")
        self._left = {str(name): value for name, value in table.items()}
        self._known: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string, which is required if there is no default."""
        value = self._take(name)
        if value is None:
            if default is None:
                self.refuse(name, "is missing")
            return default
        if not isinstance(value, str) or not value.strip():
            self.refuse(name, f"must be a non-empty string, not {value!r}")
        return value

    def text_or_none(self, name: str) -> str | None:
        if name in self:
            return self.text(name)
        self._known.append(name)
        return None

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        value = self.text(name, default)
        if value not in choices:
            self.refuse(
                name, f"must be one of {', '.join(choices)}, not {value!r}{_meant(value, choices)}"
            )
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._take(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(name, f"must be true or false, not {value!r}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings; a single string counts as a list, a missing field as empty."""
        value = self._take(name)
        if value is None:
            return ()
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(i, str) and i.strip() for i in items):
            self.refuse(name, f"must be a list of strings, not {value!r}")
        return tuple(items)

    def mapping(self, name: str) -> dict[str, object]:
        """Return a table unchanged; empty if it is missing."""
        value = self._take(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.refuse(name, f"must be a table, not {_kind(value)}")
        return {str(key): item for key, item in value.items()}

    def options(self, name: str) -> dict[str, str]:
        """Return a table of Spark options: names with dots, values as text."""
        return flattened(self.mapping(name), f"{self.where}.{name}" if self.where else name)

    def tables(self, name: str) -> list[object]:
        """Return a list of tables; empty if it is missing."""
        value = self._take(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.refuse(name, f"must be a list of tables ([[{name}]] in TOML), not {_kind(value)}")
        return value

    def finish(self) -> None:
        """Raise an error for fields that were not read."""
        for name in self._left:
            known = ", ".join(sorted(self._known))
            self.refuse(name, f"is unknown{_meant(name, self._known)}; known here: {known}")

    def refuse(self, name: str, why: str) -> NoReturn:
        raise SpecError(f"{self.where}.{name} {why}" if self.where else f"{name} {why}")

    def _take(self, name: str) -> object:
        self._known.append(name)
        return self._left.pop(name, None)


def flattened(table: Mapping[str, object], where: str) -> dict[str, str]:
    """Convert a table to Spark options.

    TOML reads `kafka.bootstrap.servers = "..."` as nested tables; this joins them to one name.
    Numbers and booleans become the text that Spark expects, and a list of strings becomes text with
    commas.
    """
    options: dict[str, str] = {}
    for name, value in table.items():
        place = f"{where}.{name}"
        if isinstance(value, Mapping):
            inner = flattened({str(key): item for key, item in value.items()}, place)
            options.update({f"{name}.{key}": item for key, item in inner.items()})
        elif isinstance(value, bool):
            options[name] = str(value).lower()
        elif isinstance(value, str | int | float):
            options[name] = str(value)
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            options[name] = ",".join(value)
        else:
            raise SpecError(
                f"{place} must be a string, a number, true, false or a list of strings,"
                f" not {_kind(value)}"
            )
    return options


def _kind(value: object) -> str:
    kinds = {dict: "a table", list: "a list", str: "a string", bool: "true or false"}
    return kinds.get(type(value), f"of type {type(value).__name__}")


def _meant(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
