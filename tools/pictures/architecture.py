"""The layers of the package: a box uses only boxes below it."""

from __future__ import annotations

from typing import Final

from tools.pictures.drawing import picture, text

ROWS: Final = (
    (("your application", ""), ("Spark", "batches and streams"), ("command line", "")),
    (
        ("producer", "batches, acks"),
        ("consumer", "fetches, offsets"),
        ("share groups", ""),
        ("admin", ""),
    ),
    (("groups", "classic, KIP-848, share"), ("transactions", "exactly once")),
    (("cluster", "metadata, routes, retries, health"),),
    (("connections", "TLS, SASL, proxies"),),
    (("protocol", "generated messages, 0.8.2 to 4.4"), ("records", "compiled, or pure Python")),
)
WIDTH, ROW, GAP, MARGIN = 720, 46, 10, 10


def architecture() -> str:
    """Return the picture."""
    parts = []
    for number, row in enumerate(ROWS):
        y = MARGIN + number * (ROW + GAP)
        box = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
        for place, (name, note) in enumerate(row):
            x = MARGIN + place * (box + GAP)
            parts.append(
                f'<rect x="{x:g}" y="{y}" width="{box:g}" height="{ROW}" rx="6" class="box"/>'
            )
            middle = x + box / 2
            parts.append(text(middle, y + (20 if note else 28), name, anchor="middle"))
            if note:
                parts.append(text(middle, y + 36, note, "small", "middle"))
    height = 2 * MARGIN + len(ROWS) * (ROW + GAP) - GAP
    return picture(WIDTH, height, "The layers of aiokafka_lite", parts)
