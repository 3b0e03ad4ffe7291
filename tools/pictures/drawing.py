"""The frame, the colors and the text that both pictures share."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

STYLE: Final = """<style>
text { font: 13px sans-serif; fill: #24292f } .small { font-size: 11px; fill: #57606a }
.ours { fill: #0b6e4f } .other { fill: #afb8c1 } .box { fill: #f6f8fa; stroke: #afb8c1 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9198a1 }
.ours { fill: #3fb68b } .other { fill: #59636e } .box { fill: #161b22; stroke: #59636e }
}
</style>"""


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Return one line of text; `kind` is a class of `STYLE`."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def picture(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """Return the SVG: the parts on a transparent background, with a title for screen readers."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", STYLE, *parts, "</svg>\n"])
