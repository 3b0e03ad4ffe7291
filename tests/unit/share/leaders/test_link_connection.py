"""The connection of a leader link."""

from __future__ import annotations

import asyncio

import pytest

from aiokafka_lite.cluster.metadata import Node
from aiokafka_lite.errors import KafkaConnectionError
from aiokafka_lite.share.leaders.link_connection import LinkConnection


class SilentBroker:
    """A broker that accepts no connection."""

    node = Node(3, "kafka3", 9092, None)

    async def connection(self, purpose: object) -> object:
        return await asyncio.get_running_loop().create_future()


class OneBroker:
    def broker(self, node_id: int) -> SilentBroker:
        assert node_id == 3
        return SilentBroker()


async def test_a_broker_that_accepts_no_connection_is_named_with_its_address() -> None:
    connection = LinkConnection(3, OneBroker(), 0.01, lambda error: None)  # type: ignore[arg-type]
    with pytest.raises(KafkaConnectionError) as caught:
        await connection.open()
    text = "Broker 3 at kafka3:9092 did not accept a connection within 0.01 s"
    assert text in str(caught.value)
    with pytest.raises(KafkaConnectionError, match="the connection to broker 3 was lost"):
        _ = connection.current
