"""The lag that a consumer reports always equals the lag computed from the brokers' offsets."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.admin import AIOKafkaAdminClient, OffsetSpec


class View:
    """The brokers' view of a consumer's lag."""

    def __init__(self, admin: AIOKafkaAdminClient, consumer: AIOKafkaConsumer) -> None:
        self._admin = admin
        self._consumer = consumer

    async def lags(self) -> dict[TopicPartition, float]:
        """End offset minus position of each assigned partition."""
        partitions = self._consumer.assignment()
        ends = await self._admin.list_offsets(
            dict.fromkeys(partitions, OffsetSpec.LATEST), isolation_level="read_committed"
        )
        return {tp: float(ends[tp].offset - await self._consumer.position(tp)) for tp in partitions}

    async def agree(self) -> dict[TopicPartition, float]:
        """Wait until the consumer reports the same; return it."""
        async with asyncio.timeout(60):
            while True:
                told = {
                    tp: metrics["records-lag"]
                    for tp, metrics in self._consumer.partition_metrics().items()
                }
                # At the same instant: a response may arrive while the brokers are asked.
                told_worst = self._consumer.metrics()["records-lag-max"]
                known = await self.lags()
                if told == known:
                    assert told_worst == max(known.values(), default=None)
                    return known
                await asyncio.sleep(0.05)


async def test_lag_after_seeks_pauses_transactions_and_rebalances(
    kafka: Any, topic: Callable[..., str]
) -> None:
    name, group, servers = topic(2), f"lag-{uuid.uuid4().hex[:12]}", kafka.bootstrap_servers
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    options: dict[str, Any] = {
        "bootstrap_servers": servers,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "heartbeat_interval_ms": 200,
    }
    async with (
        AIOKafkaAdminClient(bootstrap_servers=servers) as admin,
        AIOKafkaProducer(bootstrap_servers=servers) as producer,
        AIOKafkaProducer(bootstrap_servers=servers, transactional_id=group) as writer,
        AIOKafkaConsumer(name, **options) as consumer,
    ):
        view = View(admin, consumer)
        for partition in (0, 1):
            for number in range(10):
                await producer.send(name, b"%d" % number, partition=partition)
        await producer.flush()
        for _ in range(3):
            await consumer.getone(first)
        assert await view.agree() == {first: 7.0, second: 10.0}

        consumer.seek(first, 9)
        assert (await view.agree())[first] == 1.0
        await consumer.seek_to_end(second)
        assert (await view.agree())[second] == 0.0
        consumer.seek(second, 4)

        consumer.pause(first)
        assert await view.agree() == {first: 1.0, second: 6.0}
        consumer.resume(first)
        await producer.send_and_wait(name, b"more", partition=0)
        assert (await view.agree())[first] == 2.0

        await writer.begin_transaction()
        await writer.send_and_wait(name, b"open", partition=0)
        await producer.send_and_wait(name, b"behind", partition=0)
        # Neither can be read before the transaction ends.
        assert (await view.agree())[first] == 2.0
        await writer.commit_transaction()
        # The brokers write the marker in the background. Then: both records, and the marker.
        async with asyncio.timeout(60):
            while (await view.agree())[first] != 5.0:
                pass
        while (await consumer.getone(first)).value != b"behind":
            pass
        assert (await view.agree())[first] <= 1.0

        other = AIOKafkaConsumer(name, **options)
        async with other:
            async with asyncio.timeout(60):
                while len(consumer.assignment()) != 1:
                    await consumer.getmany(timeout_ms=100, max_records=1)
            assert (await view.agree()).keys() == consumer.assignment()
            assert (await View(admin, other).agree()).keys() == other.assignment()
