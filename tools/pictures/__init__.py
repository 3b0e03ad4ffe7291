"""Draws the pictures of README.md, the architecture and the benchmarks, without a library.

    python -m tools.pictures           # writes docs/architecture.svg and docs/benchmarks.svg
    python -m tools.pictures --check   # fails if one of them is out of date

The bars show the figures of the table in README.md, so the two cannot differ. Colors follow the
reader's light or dark mode.
"""
