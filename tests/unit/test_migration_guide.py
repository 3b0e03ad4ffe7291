"""Runs every code block of docs/migration.md with both clients, unchanged."""

import importlib.util
import re

import pytest

from tests.unit.guides import Guide

GUIDE = Guide("migration.md")
OTHERS = ("aiokafka", "confluent_kafka", "kafka")


def test_there_are_no_other_blocks():
    GUIDE.check_blocks()
    assert len(GUIDE.tests) == len(OTHERS)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("client", OTHERS)
def test_block(pytester: pytest.Pytester, client: str):
    if importlib.util.find_spec(client) is None:
        pytest.skip(f"{client} is not installed")
    guide = Guide("migration.md")
    guide.tests = [c for c in guide.tests if re.search(rf"^import {client}$", c, re.MULTILINE)]
    assert len(guide.tests) == 1
    guide.run(pytester, "-W", "default")
