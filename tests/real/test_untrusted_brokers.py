"""A real broker presents a certificate that an established client does not trust for a while."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import AuthenticationFailedError
from tests.broker_certificates import install
from tests.certificates import Authority
from tools.kafka import KafkaCluster, Security

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(300)]

ROUNDS = 3


async def test_no_record_is_lost_while_the_certificate_is_not_trusted(tmp_path: Path) -> None:
    """As with Java's producer, records wait for `delivery_timeout_ms`."""
    security = Security(("SSL",), host="localhost")
    with KafkaCluster(security=security) as cluster:
        cluster.create_topic("orders")
        trusted, other = Authority(security.folder), Authority(tmp_path / "other")
        options: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_of("SSL"),
            "security_protocol": "SSL",
            "ssl_cafile": trusted.cert,
        }
        sent = 0
        async with AIOKafkaProducer(**options) as producer, asyncio.timeout(200):
            await producer.send_and_wait("orders", b"0")
            for _ in range(ROUNDS):
                await install(cluster, other.issue("broker"))
                for broker in producer._cluster._brokers:
                    broker.disconnect()
                waiting = []
                for _ in range(100):
                    sent += 1
                    waiting.append(await producer.send("orders", b"%d" % sent))
                [outbox] = producer._sender._outboxes.values()
                while not isinstance(outbox.trouble, AuthenticationFailedError):
                    await asyncio.sleep(0.05)
                assert not any(each.done() for each in waiting)
                await install(cluster, trusted.issue("broker"))
                await asyncio.gather(*waiting)
        async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
            place = TopicPartition("orders", 0)
            consumer.assign([place])
            consumer.seek(place, 0)
            read = [int((await consumer.getone()).value or b"") for _ in range(sent + 1)]
            assert read == list(range(sent + 1))
            assert (await consumer.end_offsets([place]))[place] == sent + 1
