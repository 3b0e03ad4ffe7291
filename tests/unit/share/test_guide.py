"""Every code block of docs/share-groups.md is run, as it stands."""

import pytest

from tests.unit.guides import Guide

GUIDE = Guide("share-groups.md")


def test_all_blocks_are_tests() -> None:
    GUIDE.check_blocks()


def test_blocks(pytester: pytest.Pytester) -> None:
    GUIDE.run(pytester)
