"""Runs every code block of docs/transactions.md unchanged."""

import pytest

from tests.unit.guides import Guide

GUIDE = Guide("transactions.md")


def test_there_are_no_other_blocks() -> None:
    GUIDE.check_blocks()


@pytest.mark.timeout(120)
def test_blocks(pytester: pytest.Pytester) -> None:
    GUIDE.run(pytester)
