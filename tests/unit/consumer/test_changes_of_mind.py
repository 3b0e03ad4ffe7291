"""Applications change their subscriptions at any moment, in one group, while its coordinator moves.

Whatever they did, each stops in time and leaves nothing behind, and the next members share all
partitions.
"""

import asyncio
import contextlib
from collections import Counter
from random import Random
from typing import Any

import pytest

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.seeds import seeds
from tests.unit.consumer.makers import until
from tests.unit.consumer.members import CONFIGS, PROTOCOLS

pytestmark = pytest.mark.unhurried

TOPICS = {"a": 3, "b": 4, "c": 2}
WHIMS = ["subscribe", "unsubscribe", "pattern", "assign", "rebalance", "read", "read"]
SECONDS = 2.0
STOPS_WITHIN = 5.0


def some_topics(chance: Random) -> list[str]:
    return chance.sample(list(TOPICS), chance.randint(1, len(TOPICS)))


async def change(consumer: AIOKafkaConsumer, chance: Random) -> None:
    """One random action."""
    match chance.choice(WHIMS):
        case "subscribe":
            # After a pattern or an assignment, the consumer must unsubscribe first.
            with contextlib.suppress(IllegalStateError):
                consumer.subscribe(some_topics(chance))
        case "unsubscribe":
            consumer.unsubscribe()
            assert consumer.assignment() == set()
        case "pattern":
            consumer.unsubscribe()
            consumer.subscribe(pattern=chance.choice(["[ab]", "c", ".*"]))
        case "assign":
            consumer.unsubscribe()
            consumer.assign([TopicPartition("a", 0)])
        case "rebalance":
            consumer.enforce_rebalance()
        case "read":
            await consumer.getmany(timeout_ms=chance.choice([0, 10, 100]))
    await asyncio.sleep(chance.choice([0, 0, 0.001, 0.01, 0.1]))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", seeds(1, first=1))
@pytest.mark.parametrize("protocol", list(PROTOCOLS))
async def test_whims(protocol: str, seed: int) -> None:
    loop = asyncio.get_running_loop()
    until_then = loop.time() + SECONDS
    tasks_before = asyncio.all_tasks()

    def make(*topics: str) -> AIOKafkaConsumer:
        options: dict[str, Any] = PROTOCOLS[protocol]
        return AIOKafkaConsumer(
            *topics,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            retry_backoff_ms=10,
            fetch_max_wait_ms=50,
            metadata_max_age_ms=200,
            request_timeout_ms=3000,
            **options,
        )

    async def live(chance: Random) -> None:
        while loop.time() < until_then:
            consumer = make(*(some_topics(chance) if chance.random() < 0.5 else ()))
            try:
                # Some starts are abandoned.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(consumer.start(), chance.choice([0.02, 0.1, 5, 5, 5]))
                    for _ in range(chance.randint(1, 12)):
                        await change(consumer, chance)
            finally:
                begun = loop.time()
                await consumer.stop()
                assert loop.time() - begun < STOPS_WITHIN + 1

    async def move(chance: Random) -> None:
        while loop.time() < until_then:
            await asyncio.sleep(chance.random())
            cluster.move_coordinator("g", chance.randint(0, 1))

    async with FakeCluster(brokers=2, topics=TOPICS, broker_configs=CONFIGS) as cluster:
        lives = [live(Random(10 * seed + i)) for i in range(4)]
        await asyncio.gather(*lives, move(Random(seed)))
        after = [make(*TOPICS) for _ in range(3)]
        try:
            async with asyncio.timeout(30):
                await asyncio.gather(*(consumer.start() for consumer in after))

            def shared() -> bool:
                owners = Counter(tp for consumer in after for tp in consumer.assignment())
                return len(owners) == sum(TOPICS.values()) and max(owners.values()) == 1

            await until(shared)
        finally:
            await asyncio.gather(*(consumer.stop() for consumer in after))
    await until(lambda: asyncio.all_tasks() <= tasks_before)
