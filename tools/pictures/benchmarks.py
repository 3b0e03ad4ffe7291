"""The table of README.md that compares clients, as bars: shorter is less CPU."""

from __future__ import annotations

import re
from typing import Final

from tools.pictures.drawing import picture, text

LEFT, WIDTH, BAR, GAP = 150, 720, 20, 6
_ROW: Final = re.compile(
    r"^ *\| (CPU per record[^|]*) \|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE
)
_HEAD: Final = re.compile(r"^ *\| *\| (\w+) \| ([\w-]+) \| (\w+) \|$", re.MULTILINE)


def measured(readme: str) -> list[tuple[str, dict[str, float]]]:
    """Return each row of the table: its title, and the microseconds of each client.

    Raises:
        ValueError: README.md has no such table.
    """
    head = _HEAD.search(readme)
    rows = _ROW.findall(readme)
    if head is None or not rows:
        raise ValueError("README.md has no table of the CPU per record")
    clients = head.groups()
    return [
        (title, {name: float(cell.split()[0]) for name, cell in zip(clients, cells, strict=True)})
        for title, *cells in rows
    ]


def benchmarks(readme: str) -> str:
    """Return the picture of the table in this text."""
    found = measured(readme)
    most = max(max(figures.values()) for _, figures in found)
    parts, y = [], 10
    for title, figures in found:
        parts.append(text(10, y + 14, title.replace("`", "")))
        y += 24
        for client, figure in figures.items():
            length = (WIDTH - LEFT - 90) * figure / most
            kind = "ours" if client == "aiokafka_lite" else "other"
            parts.append(text(LEFT - 8, y + 15, client, "small", "end"))
            parts.append(
                f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" class="{kind}"/>'
            )
            parts.append(text(LEFT + length + 6, y + 15, f"{figure:g} µs", "small"))
            y += BAR + GAP
        y += 10
    return picture(WIDTH, y, "CPU time per record of three clients", parts)
