"""Runs every code block of docs/consumer.md unchanged."""

import pytest

from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.guides import Guide

GUIDE = Guide("consumer.md")


def test_there_are_no_other_blocks() -> None:
    GUIDE.check_blocks()


async def test_every_metric_is_documented(make: MakeConsumer) -> None:
    assert GUIDE.metrics() == sorted(make("orders", group_id="g").metrics())


@pytest.mark.timeout(120)
def test_blocks(pytester: pytest.Pytester) -> None:
    GUIDE.run(pytester)
