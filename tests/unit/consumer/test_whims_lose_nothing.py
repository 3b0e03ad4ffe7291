"""Applications change their subscriptions in one group, amid failures: no offset is committed
before its records are handed out, no commit is undone, and every record is handed out.

WHIMS_SEED is the first seed, WHIMS_SEEDS the number of seeds.
"""

import asyncio
import contextlib
import os
from random import Random
from typing import Any

import pytest

from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import (
    BrokerResponseError,
    ConsumerStoppedError,
    FencedMemberEpochError,
    GroupLoadInProgressError,
    IllegalGenerationError,
    IllegalStateError,
    KafkaError,
    NotCoordinatorForGroupError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster
from aiokafka_lite.testing.groups.classic.classic_group import ClassicGroup
from aiokafka_lite.testing.groups.consumer_group_protocol import ConsumerGroup
from tests.seeds import seeds
from tests.unit.consumer.makers import append, numbered
from tests.unit.consumer.members import CONFIGS, PROTOCOLS

pytestmark = pytest.mark.unhurried

TOPICS = {"a": 3, "b": 4, "c": 2}
RECORDS = 400
PARTITIONS = [TopicPartition(topic, n) for topic, count in TOPICS.items() for n in range(count)]
SECONDS = 2.0
FIRST = int(os.environ.get("WHIMS_SEED", "1"))
SEEDS = seeds(int(os.environ.get("WHIMS_SEEDS", "1")), first=FIRST)
WHIMS = [
    *("subscribe", "unsubscribe", "pattern", "pause", "resume", "rebalance", "commit", "late"),
    *["read"] * 12,
]
STRIKES: list[tuple[ApiKey, type[BrokerResponseError]]] = [
    (ApiKey.OFFSET_COMMIT, GroupLoadInProgressError),
    (ApiKey.OFFSET_COMMIT, RebalanceInProgressError),
    (ApiKey.OFFSET_COMMIT, UnknownMemberIdError),
    (ApiKey.OFFSET_COMMIT, StaleMemberEpochError),
    (ApiKey.OFFSET_FETCH, NotCoordinatorForGroupError),
    (ApiKey.HEARTBEAT, UnknownMemberIdError),
    (ApiKey.HEARTBEAT, IllegalGenerationError),
    (ApiKey.JOIN_GROUP, UnknownMemberIdError),
    (ApiKey.SYNC_GROUP, RebalanceInProgressError),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, UnknownMemberIdError),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, FencedMemberEpochError),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, NotCoordinatorForGroupError),
]


REMOVED = (FencedMemberEpochError, IllegalGenerationError, UnknownMemberIdError)
"""A coordinator returns these after it removed the member, or its generation."""


class Ledger:
    """The records that were handed out, and the errors found."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.given: dict[TopicPartition, set[int]] = {tp: set() for tp in PARTITIONS}
        self.wrong: list[str] = []
        self._cluster = cluster
        self._names = {topic.topic_id: name for name, topic in cluster.state.topics.items()}
        self._committed: dict[TopicPartition, int] = {}

    def on_commit(self, request: Any) -> bool:
        """Check each commit that arrives; return False to let it pass."""
        for topic in request.topics:
            name = topic.name or self._names[topic.topic_id]
            for told in topic.partitions:
                tp = TopicPartition(name, told.partition_index)
                if not self.given[tp].issuperset(range(told.committed_offset)):
                    self.wrong.append(f"{tp} at {told.committed_offset} was not given: {request}")
        return False

    async def watch(self) -> None:
        while True:
            for tp, offset in self._cluster.committed("g").items():
                if offset < self._committed.get(tp, 0):
                    self.wrong.append(f"{tp} went back to {offset} from {self._committed[tp]}")
                self._committed[tp] = offset
            await asyncio.sleep(0.001)


class Listener(ConsumerRebalanceListener):
    """A typical listener."""

    def __init__(self, consumer: AIOKafkaConsumer, chance: Random) -> None:
        self.consumer = consumer
        self.chance = chance

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await asyncio.sleep(self.chance.choice([0, 0, 0.01, 0.1]))
        if self.chance.random() < 0.5:
            await self.consumer.commit()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        await asyncio.sleep(self.chance.choice([0, 0, 0.01, 0.1]))
        if self.chance.random() < 0.2:
            self.consumer.unsubscribe()

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        await asyncio.sleep(self.chance.choice([0, 0.01]))


async def change(consumer: AIOKafkaConsumer, chance: Random, ledger: Ledger) -> None:
    """One random action."""
    listener = chance.choice([None, Listener(consumer, chance)])
    topics = chance.sample(list(TOPICS), chance.randint(1, len(TOPICS)))
    match chance.choice(WHIMS):
        case "subscribe":
            with contextlib.suppress(IllegalStateError):  # there is a pattern
                consumer.subscribe(topics, listener=listener)
        case "unsubscribe":
            consumer.unsubscribe()
        case "pattern":
            consumer.unsubscribe()
            consumer.subscribe(pattern=chance.choice(["[ab]", "c", ".*"]), listener=listener)
        case "pause":
            consumer.pause(*chance.sample(sorted(consumer.assignment()), 1))
        case "resume":
            consumer.resume(*consumer.assignment())
        case "rebalance":
            consumer.enforce_rebalance()
        case "commit":
            await consumer.commit()
        case "late":
            committing = asyncio.ensure_future(consumer.commit())
            committing.add_done_callback(lambda task: task.exception())  # it is not awaited
        case "read":
            for tp, records in (
                await consumer.getmany(
                    timeout_ms=chance.choice([0, 10, 100]), max_records=chance.randint(1, 20)
                )
            ).items():
                ledger.given[tp].update(record.offset for record in records)
    await asyncio.sleep(chance.choice([0, 0, 0.001, 0.01]))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("protocol", list(PROTOCOLS))
async def test_whims(protocol: str, seed: int) -> None:
    loop = asyncio.get_running_loop()
    until_then = loop.time() + SECONDS

    def make(*topics: str) -> AIOKafkaConsumer:
        options: dict[str, Any] = PROTOCOLS[protocol]
        return AIOKafkaConsumer(
            *topics,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=20,
            retry_backoff_ms=10,
            fetch_max_wait_ms=50,
            metadata_max_age_ms=200,
            request_timeout_ms=3000,
            **options,
        )

    def remove_member(request: Any) -> bool:
        """Make the error true: otherwise the member's late commits are stored."""
        group = cluster.state.groups.get("g")
        if isinstance(group, ClassicGroup) and request.member_id in group.members:
            group._on_silent(group.members[request.member_id])
        elif isinstance(group, ConsumerGroup):
            group.fence(request.member_id)
        return True

    async def live(chance: Random) -> None:
        while loop.time() < until_then:
            consumer = make(*chance.sample(list(TOPICS), chance.randint(0, len(TOPICS))))
            try:
                await consumer.start()
                for _ in range(chance.randint(1, 60)):
                    with contextlib.suppress(KafkaError, ValueError):
                        await change(consumer, chance, ledger)
            finally:
                await consumer.stop()

    async def trouble(chance: Random) -> None:
        while loop.time() < until_then:
            await asyncio.sleep(chance.random() / 2)
            match chance.choice(["move", "strike", "cut"]):
                case "move":
                    cluster.move_coordinator("g", chance.randint(0, 1))
                case "strike":
                    api, error = chance.choice(STRIKES)
                    removes = error in REMOVED
                    cluster.control(
                        api,
                        times=chance.randint(1, 3),
                        when=remove_member if removes else None,
                        error=error,
                        after_handling=not removes and chance.random() < 0.5,
                        delay=chance.choice([0, 0, 0.1, 0.5]),
                    )
                case "cut":
                    cluster.disconnect(chance.randint(0, 1))

    async def read_the_rest(consumer: AIOKafkaConsumer) -> None:
        with contextlib.suppress(ConsumerStoppedError):
            async for record in consumer:
                ledger.given[TopicPartition(record.topic, record.partition)].add(record.offset)
                if all(len(given) == RECORDS for given in ledger.given.values()):
                    done.set()

    async with FakeCluster(brokers=2, topics=TOPICS, broker_configs=CONFIGS) as cluster:
        for topic, partition in PARTITIONS:
            append(cluster, numbered(RECORDS), partition, topic)
        ledger, done = Ledger(cluster), asyncio.Event()
        cluster.control(ApiKey.OFFSET_COMMIT, times=None, when=ledger.on_commit)
        watching = asyncio.create_task(ledger.watch())
        lives = [live(Random(10 * seed + i)) for i in range(4)]
        await asyncio.gather(*lives, trouble(Random(seed)))
        after = [make(*TOPICS) for _ in range(3)]
        try:
            await asyncio.gather(*(consumer.start() for consumer in after))
            reading = [asyncio.create_task(read_the_rest(consumer)) for consumer in after]
            async with asyncio.timeout(20):
                await done.wait()
        finally:
            await asyncio.gather(*(consumer.stop() for consumer in after))
            watching.cancel()
        await asyncio.gather(*reading)
    assert ledger.wrong == []
