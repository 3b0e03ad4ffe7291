"""Every code block of docs/share-groups.md is run, as it stands: the programs of its work queue by
tests/unit/test_examples.py, the others here."""

import pytest

from tests.unit.guides import Guide

GUIDE = Guide("share-groups.md", "from fastapi", "import signal")


def test_all_blocks_are_tests() -> None:
    GUIDE.check_blocks()


def test_blocks(pytester: pytest.Pytester) -> None:
    GUIDE.run(pytester)
