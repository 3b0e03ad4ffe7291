"""The pictures of README.md: how the package is built, and the benchmarks. No drawing library.

    python -m tools.pictures           # writes docs/architecture.svg and docs/benchmarks.svg
    python -m tools.pictures --check   # fails if one of them is out of date

The bars are the figures of the table in README.md, so that the two cannot differ. Colors follow the
reader's light or dark mode.
"""
