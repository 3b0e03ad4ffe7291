"""Writes the generated page docs/embedded-broker.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.broker_docs.page import page

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "embedded-broker.md"


def main() -> int:
    """Write the page, or report that it is stale."""
    parser = argparse.ArgumentParser(prog="python -m tools.broker_docs", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="only report a stale page; write nothing"
    )
    fresh = page()
    if not parser.parse_args().check:
        TARGET.write_text(fresh)
        return 0
    if not TARGET.is_file() or TARGET.read_text() != fresh:
        print(
            f"{TARGET.relative_to(ROOT)} is stale: run `python -m tools.broker_docs`",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
