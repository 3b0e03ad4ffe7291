"""`stop_timeout_ms`: how long the end of `async with` waits for records."""

from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import KafkaConfigurationError, ProducerClosed
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried


async def test_end_of_the_block_waits_no_longer_than_stop_timeout_ms(
    make_producer: Callable[..., Any],
) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        cluster.control(0, drop=True)
        async with make_producer(cluster, stop_timeout_ms=50) as producer:
            ack = await producer.send("orders", b"never acknowledged")
        with pytest.raises(ProducerClosed):
            await ack


async def test_invalid_stop_timeout_is_refused() -> None:
    with pytest.raises(KafkaConfigurationError, match="stop_timeout_ms"):
        AIOKafkaProducer(stop_timeout_ms=-1)
