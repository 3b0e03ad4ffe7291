"""Draws the live view with rich, in the terminal's alternate screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from aiokafka_lite.cli.administration.output import printable
from aiokafka_lite.cli.live.rates import (
    GROUP_COLUMNS,
    PROBLEM_COLUMNS,
    SORTS,
    TOPIC_COLUMNS,
    View,
)

__all__ = ["Screen"]

_TITLES: Final = {"in_per_s": "IN/S", "out_per_s": "OUT/S"}
_NUMBERS: Final = {"lag", "in_per_s", "out_per_s", "partitions", "partition", "groups", "leader"}
_AROUND: Final = 2
"""Lines of a table besides its rows: the column titles, and an empty line."""
_LEAST: Final = 3
"""Lines that each table gets, regardless of the others."""


class Screen:
    """A full-screen rendering of a `View`.

    Args:
        color: False to draw without colors.
    """

    def __init__(self, *, color: bool) -> None:
        self.console = Console(no_color=not color, highlight=False)
        self._live = Live(
            console=self.console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._live.stop()

    def show(self, view: View, *, title: str, sort: str, note: str) -> None:
        """Draw a view.

        Args:
            view: The rows.
            title: The first line: the cluster, and the time.
            sort: The order, which is marked in the titles.
            note: A problem, which replaces the key help; "" without one.
        """
        width, height = self.console.size
        self._live.update(picture(view, width, height, title, sort, note), refresh=True)


def picture(
    view: View, width: int, height: int, title: str, sort: str, note: str
) -> RenderableType:
    """Return the part that fits into a terminal of this size."""
    tables: list[tuple[Sequence[str], list[dict[str, Any]]]] = [
        (GROUP_COLUMNS, view.groups),
        (TOPIC_COLUMNS, view.topics),
    ]
    if view.problems:
        tables.insert(0, (PROBLEM_COLUMNS, view.problems))
    room = shares([len(rows) + _AROUND for _, rows in tables], height - 3)
    parts: list[RenderableType] = [_line(title, width, "bold"), Text("")]
    for (columns, rows), lines in zip(tables, room, strict=True):
        if lines > _AROUND or not rows:
            alarming = columns is PROBLEM_COLUMNS
            parts.append(_table(columns, rows, lines - _AROUND, sort, alarming=alarming))
            parts.append(Text(""))
    keys = "sort by  l lag  i in  o out  n name   (again: reverse)   q quit"
    parts.append(_line(note or keys, width, "bold red" if note else "dim"))
    return Group(*parts)


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """Divide lines among tables: those that want less than their share leave the rest to others."""
    given = [0] * len(wanted)
    for place, number in enumerate(sorted(range(len(wanted)), key=lambda each: wanted[each])):
        fair = max(room // (len(wanted) - place), _LEAST)
        given[number] = max(0, min(wanted[number], fair, room))
        room -= given[number]
    return given


def _table(
    columns: Sequence[str],
    rows: list[dict[str, Any]],
    lines: int,
    sort: str,
    *,
    alarming: bool,
) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        title = _TITLES.get(column, column.upper())
        if not alarming and column == (SORTS[sort] or columns[0]):
            title += "*"
        table.add_column(
            Text(title),
            justify="right" if column in _NUMBERS else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=None,
        )
    hidden = len(rows) - lines
    shown = rows if hidden <= 0 else rows[: max(0, lines - 1)]
    for row in shown:
        style = "red" if alarming or _is_stuck(row) else ""
        table.add_row(*(Text(cell(row[column])) for column in columns), style=style)
    if hidden > 0 and lines > 0:
        table.add_row(Text(f"... {len(rows) - len(shown)} more", style="dim"))
    return table


def _is_stuck(row: dict[str, Any]) -> bool:
    """True if a group has lag and committed nothing over the whole window."""
    return "group" in row and bool(row["lag"]) and row["out_per_s"] == 0


def cell(value: object) -> str:
    """Return a number with thousands separated, and anything else without control characters."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}" if 0 < value < 100 else f"{value:,.0f}"
    return printable(value)


def _line(text: str, width: int, style: str) -> Text:
    line = Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")
    line.truncate(max(1, width), overflow="ellipsis")
    return line
