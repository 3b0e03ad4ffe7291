"""Runs every code block of docs/producer.md unchanged."""

import pytest

from aiokafka_lite import AIOKafkaProducer
from tests.unit.guides import Guide

GUIDE = Guide("producer.md")


def test_there_are_no_other_blocks() -> None:
    GUIDE.check_blocks()


async def test_every_metric_is_documented() -> None:
    producer = AIOKafkaProducer()
    try:
        assert GUIDE.metrics() == sorted(producer.metrics())
    finally:
        await producer.stop()


@pytest.mark.timeout(120)
def test_blocks(pytester: pytest.Pytester) -> None:
    GUIDE.run(pytester)
