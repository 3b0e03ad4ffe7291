"""Runs every code block of docs/share-groups.md unchanged, except the programs of its work
queue, which tests/unit/test_examples.py runs."""

import pytest

from tests.unit.guides import Guide

GUIDE = Guide("share-groups.md", "from fastapi", "import signal")


def test_all_blocks_are_tests() -> None:
    GUIDE.check_blocks()


def test_blocks(pytester: pytest.Pytester) -> None:
    GUIDE.run(pytester)
