"""Writes the pictures; with `--check`, compares them with the existing files."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.pictures.architecture import architecture
from tools.pictures.benchmarks import benchmarks

ROOT = Path(__file__).parents[2]


def main(arguments: list[str]) -> str | None:
    """Write or check the pictures; return the problem, or None."""
    readme = (ROOT / "README.md").read_text()
    pictures = {"architecture.svg": architecture(), "benchmarks.svg": benchmarks(readme)}
    for name, text in pictures.items():
        path = ROOT / "docs" / name
        if "--check" not in arguments:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            return f"{path.name} is out of date: run `python -m tools.pictures`"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
