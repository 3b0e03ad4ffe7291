"""Writes generated tables between the markers of a page of docs/."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["fresh", "main"]

DOCS = Path(__file__).resolve().parents[1] / "docs"


def fresh(page: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """Return the page with fresh tables.

    Raises:
        ValueError: The page lacks the markers of a table.
    """
    for name, make in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        parts = re.split(f"{begin}.*?{end}", page, flags=re.DOTALL)
        if len(parts) != 2:
            raise ValueError(f"the page must have the markers of table {name!r} once")
        page = f"{parts[0]}{begin}\n{make()}\n\n{end}{parts[1]}"
    return page


def main(module: str, page_name: str, tables: Mapping[str, Callable[[], str]]) -> int:
    """Write the tables of a page, or with `--check` report that they are stale.

    Args:
        module: The module that is run, for its messages.
        page_name: The page's file in docs/.
        tables: The function that creates each table, by the name in its markers.

    Returns:
        The exit status: 1 if a table is stale.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=f"Writes the generated tables of docs/{page_name}."
    )
    parser.add_argument(
        "--check", action="store_true", help="only report stale tables; write nothing"
    )
    check = parser.parse_args().check
    target = DOCS / page_name
    page = target.read_text()
    made = fresh(page, tables)
    if not check:
        target.write_text(made)
        return 0
    if made != page:
        print(f"docs/{page_name} is stale: run `python -m {module}`", file=sys.stderr)
        return 1
    return 0
