"""Runs every Python block of docs/schemas.md unchanged."""

import pytest

from tests.unit.guides import Guide

GUIDE = Guide("schemas.md")


def test_there_are_no_other_blocks() -> None:
    GUIDE.check_blocks("text")


@pytest.mark.timeout(120)
def test_blocks(pytester: pytest.Pytester) -> None:
    GUIDE.run(pytester)
