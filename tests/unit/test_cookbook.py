"""Runs every recipe of docs/cookbook.md unchanged."""

import importlib.util

import pytest

from tests.unit.guides import Guide

GUIDE = Guide("cookbook.md")


def test_there_are_no_other_blocks():
    GUIDE.check_blocks("dockerfile")


@pytest.mark.timeout(120)
def test_blocks(pytester: pytest.Pytester):
    if importlib.util.find_spec("pydantic") is None:  # no dependency of the tests
        GUIDE.tests = [code for code in GUIDE.tests if "pydantic" not in code]
    GUIDE.run(pytester)
