"""Results as a table, a wider table, JSON or YAML: the same for every administrative command."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

__all__ = ["Output", "add_output_flags", "printable"]

FORMATS: Final = ("table", "wide", "json", "yaml")
Row = Mapping[str, Any]


def add_output_flags(parser: argparse.ArgumentParser, *, short: bool = True) -> None:
    """Add the flags for the output format; `short`: -o is --output, not an offset."""
    add = parser.add_argument_group("output").add_argument
    names = ("-o", "--output") if short else ("--output",)
    add(*names, choices=FORMATS, default="table", help="default: table")
    add("--no-header", action="store_true", help="print tables without their first line")
    add("--color", choices=("auto", "always", "never"), default="auto", help="default: auto")


class Output:
    """Prints results on stdout.

    Args:
        args: With `output`, `no_header` and `color`.
        stream: Where to print; stdout by default.
    """

    def __init__(self, args: argparse.Namespace, stream: TextIO | None = None) -> None:
        self._format: str = args.output
        self._header: bool = not args.no_header
        self._stream = sys.stdout if stream is None else stream
        plain = args.color == "never" or bool(os.environ.get("NO_COLOR"))
        self._color = args.color == "always" or (not plain and self._stream.isatty())

    def rows(self, columns: Sequence[str], rows: Sequence[Row], wide: Sequence[str] = ()) -> None:
        """Print rows.

        Args:
            columns: The names of the columns of a table.
            rows: A value for each column, by name. JSON and YAML have all of them.
            wide: Columns that only the wide table has.
        """
        if self._format == "json":
            self._print(json.dumps([_plain(row) for row in rows], indent=2, ensure_ascii=False))
        elif self._format == "yaml":
            self._print(_yaml(rows))
        else:
            shown = [*columns, *wide] if self._format == "wide" else list(columns)
            self._table(shown, rows)

    def sections(self, sections: Mapping[str, tuple[Sequence[str], Sequence[Row]]]) -> None:
        """Print several results: an object of lists in JSON and YAML, else a table for each.

        Args:
            sections: The columns and the rows of each result, by name.
        """
        if self._format == "json":
            found = {name: [_plain(row) for row in rows] for name, (_, rows) in sections.items()}
            self._print(json.dumps(found, indent=2, ensure_ascii=False))
        elif self._format == "yaml":
            for name, (_, rows) in sections.items():
                self._print(f"{name}:{_separated(_yaml(rows))}")
        else:
            for number, (columns, rows) in enumerate(sections.values()):
                if number:
                    self._print("")
                self._table(columns, rows)

    def _table(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        cells = [[printable(row.get(column)) for column in columns] for row in rows]
        titles = [column.replace("_", "-").upper() for column in columns]
        lines = [titles, *cells] if self._header else cells
        widths = [max((len(line[at]) for line in lines), default=0) for at in range(len(columns))]
        for number, line in enumerate(lines):
            text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            bold = self._color and self._header and not number
            self._print(f"\x1b[1m{text.rstrip()}\x1b[0m" if bold else text.rstrip())

    def _print(self, text: str) -> None:
        print(text, file=self._stream)


def printable(value: object) -> str:
    """Return a text without characters that move a terminal's cursor, whatever a broker sent."""
    return "".join(char if char.isprintable() else "?" for char in _cell(value))


def _separated(yaml: str) -> str:
    return f" {yaml}" if yaml == "[]" else f"\n{yaml}"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(each) for each in value) or "-"
    return str(value)


def _plain(row: Row) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}


def _yaml(rows: Sequence[Row]) -> str:
    """Return a list of mappings; each value is JSON, which is YAML, too."""
    if not rows:
        return "[]"
    lines = []
    for row in rows:
        for number, (name, value) in enumerate(_plain(row).items()):
            text = json.dumps(value, ensure_ascii=False)
            lines.append(f"{'  ' if number else '- '}{name}: {text}")
    return "\n".join(lines)
