"""Converts Markdown for GitHub to Markdown that MkDocs renders in the same way."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Final

_FENCE: Final = re.compile(r" *(`{3,})")
_INFO: Final = re.compile(r"( *`{3,}\w+) .+")
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
_ITEM: Final = re.compile(r" *(?:[-*+]|\d+\.) ")


def _lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Each line, and True if it belongs to a code block."""
    fence = ""
    for line in markdown.splitlines():
        match = _FENCE.match(line)
        if match and not fence:
            fence = match[1]
            yield line, True
        elif fence:
            yield line, True
            if line.strip() == fence:
                fence = ""
        else:
            yield line, False


def plain_fences(markdown: str) -> str:
    """Leave only the language of code blocks ("```python anyio"), which MkDocs requires."""
    lines = (_INFO.sub(r"\1", line) if code else line for line, code in _lines(markdown))
    return "\n".join(lines) + "\n"


def deepen_lists(markdown: str) -> str:
    """Indent the content of list items by four columns per level, as Python-Markdown requires.

    GitHub nests by two columns, and lets a list follow a paragraph without an empty line.
    """
    deepened: list[str] = []
    in_list = False
    for line, code in _lines(markdown):
        indented = line.startswith(" ")
        if not code and _ITEM.match(line) and not (indented and not in_list):
            if not in_list and deepened and deepened[-1].strip():
                deepened.append("")
            in_list = True
        elif line.strip() and not indented and (code or not deepened or not deepened[-1].strip()):
            in_list = False
        spaces = len(line) - len(line.lstrip(" "))
        if in_list and spaces and code:
            line = "  " + line  # the code's own indentation stays
        elif in_list and spaces:
            line = " " * spaces + line
        deepened.append(line)
    return "\n".join(deepened) + "\n"


def move_links(markdown: str, source: str, page: str, place: Callable[[str], str | None]) -> str:
    """Change relative links to links to the pages of the site.

    Args:
        markdown: A page's text.
        source: The page's file, relative to the repository's root.
        page: The same, relative to the root of the site's pages.
        place: The page that shows a file or folder of the repository; None if there is none, which
            leaves the link's text.
    """

    def moved(match: re.Match[str]) -> str:
        image, text, target = match.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return match[0]
        path, hash_, anchor = target.partition("#")
        there = place(posixpath.normpath(posixpath.join(posixpath.dirname(source), path)))
        if there is None:
            return text
        relative = posixpath.relpath(there, posixpath.dirname(page) or ".")
        return f"{image}[{text}]({relative}{hash_}{anchor})"

    parts = []
    for code, lines in groupby(_lines(markdown), key=lambda line: line[1]):
        part = "\n".join(line for line, _ in lines)
        parts.append(part if code else _LINK.sub(moved, part))  # a link's text may span lines
    return "\n".join(parts) + "\n"
