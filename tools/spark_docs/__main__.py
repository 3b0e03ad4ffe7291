"""Writes the generated tables of docs/spark.md."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tools.spark_docs.tables import TABLES

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "spark.md"


def fresh(page: str) -> str:
    """The page with fresh tables.

    Raises:
        ValueError: The page lacks the markers of a table.
    """
    for name, make in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        parts = re.split(f"{begin}.*?{end}", page, flags=re.DOTALL)
        if len(parts) != 2:
            raise ValueError(f"docs/spark.md must have the markers of table {name!r} once")
        page = f"{parts[0]}{begin}\n{make()}\n\n{end}{parts[1]}"
    return page


def main() -> int:
    """Write the tables, or report that they are stale."""
    parser = argparse.ArgumentParser(prog="python -m tools.spark_docs", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="only report stale tables; write nothing"
    )
    check = parser.parse_args().check
    page = TARGET.read_text()
    made = fresh(page)
    if not check:
        TARGET.write_text(made)
        return 0
    if made != page:
        print(
            f"{TARGET.relative_to(ROOT)} is stale: run `python -m tools.spark_docs`",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
