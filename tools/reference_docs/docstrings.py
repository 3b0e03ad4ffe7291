"""Reads the sections of Google-style docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

__all__ = ["entries", "first_paragraph", "section"]

_HEADINGS: Final = "Args|Attributes|Returns|Raises|Yields|Cancellation|Source"


def section(documented: object, heading: str) -> str:
    """Return the text of a section, dedented; "" if there is none."""
    text = inspect.getdoc(documented) or ""
    found = re.search(rf"^{heading}:\n((?:(?: .*)?\n)*(?: .*)?)", f"{text}\n", re.MULTILINE)
    return inspect.cleandoc(found[1]) if found else ""


def entries(documented: object, heading: str) -> Iterator[tuple[list[str], str]]:
    """Yield the names and the text of each entry of a section, the text on one line."""
    for block in re.split(r"\n(?=\S)", section(documented, heading)):
        names, colon, text = block.partition(":")
        if colon:
            yield [name.strip(" *`\n") for name in names.split(",")], " ".join(text.split())


def first_paragraph(documented: object) -> str:
    """Return the first paragraph of a docstring, on one line."""
    text = inspect.getdoc(documented) or ""
    return " ".join(text.split("\n\n")[0].split())
