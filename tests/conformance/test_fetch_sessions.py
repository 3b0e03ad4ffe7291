"""Fetch sessions (KIP-227), their topic ids (KIP-516), and the ends of long polls."""

import asyncio
from random import Random
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lite.errors import InvalidFetchSessionEpoch
from aiokafka_lite.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from aiokafka_lite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokafka_lite.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokafka_lite.protocol.primitives import ZERO_UUID
from tests.conformance.conftest import Compare
from tests.conformance.requests import GOOD, produce
from tests.conformance.target import Target

BY_NAME, BY_ID = 12, 17
NO_ID = UUID(int=0x1234)


class Fetching:
    """One client's session with a target, over the partitions of one topic."""

    def __init__(self, target: Target, topic: str, topic_id: UUID, version: int) -> None:
        self.target = target
        self.topic = topic
        self.topic_id = topic_id
        self.version = version
        self.session_id = 0
        self.epoch = 0

    @classmethod
    async def of(cls, target: Target, topic: str, version: int = BY_NAME) -> "Fetching":
        return cls(target, topic, await topic_id(target, topic), version)

    def request(
        self, offsets: dict[int, int], *forgotten: int, epoch: int | None = None, **fields: Any
    ) -> FetchRequest:
        by_id = self.version >= 13
        name, id_ = ("", self.topic_id) if by_id else (self.topic, ZERO_UUID)
        wanted = [
            FetchPartition(index, -1, offset, partition_max_bytes=2**20)
            for index, offset in offsets.items()
        ]
        return FetchRequest(
            session_id=self.session_id,
            session_epoch=self.epoch if epoch is None else epoch,
            topics=[FetchTopic(name, id_, wanted)] if wanted else [],
            forgotten_topics_data=[ForgottenTopic(name, id_, [*forgotten])] if forgotten else [],
            **fields,
        )

    async def ask(self, offsets: dict[int, int], *forgotten: int, **fields: Any) -> Any:
        """In the session: use the id in the response, and advance the epoch."""
        response = await self.target.ask(self.request(offsets, *forgotten, **fields), self.version)
        self.session_id = response.session_id
        self.epoch += 1
        return response

    async def ask_otherwise(self, offsets: dict[int, int], **fields: Any) -> Any:
        """The answer changes nothing here."""
        return await self.target.ask(self.request(offsets, **fields), self.version)


async def topic_id(target: Target, topic: str) -> UUID:
    request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
    (found,) = (await target.quietly(request, 12)).topics
    return UUID(int=found.topic_id.int)


async def write(target: Target, topic: str, *batches: bytes) -> None:
    await target.ask(produce(topic, *batches), 9)


@pytest.mark.parametrize("version", [7, BY_NAME, BY_ID])
async def test_incremental_responses_have_only_changes(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(3)
        client = await Fetching.of(target, topic, version)
        await client.ask({0: 0, 1: 0, 2: 0})
        await client.ask({})
        await write(target, topic, GOOD, GOOD)
        await client.ask({})
        await client.ask({1: 2})
        await client.ask({0: 2})
        await client.ask({0: 99})
        await client.ask({})
        await client.ask({0: 1})
        await client.ask({}, 0)
        await client.ask({}, 0, 1)
        await write(target, topic, GOOD, GOOD, GOOD)
        await client.ask({})
        await client.ask({0: 0})
        await client.ask({}, 0, 1, 2)
        await client.ask({})

    await compare(scenario)


async def test_unknown_sessions_and_wrong_epochs(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        client = await Fetching.of(target, topic)
        await client.ask_otherwise({0: 0}, epoch=1)
        await client.ask({0: 0, 7: 0})
        for epoch in (2, 5, -2, 2**31 - 1):
            await client.ask_otherwise({}, epoch=epoch)
        await client.ask({})
        await client.ask_otherwise({}, epoch=1)
        client.version = BY_ID
        await client.ask_otherwise({})
        client.version = BY_NAME
        await client.ask({})
        await client.ask_otherwise({0: 0}, epoch=-1)  # closes it
        await client.ask_otherwise({})
        client.epoch = 0
        await client.ask({0: 0})
        client.epoch = 0
        await client.ask({0: 0})  # a new one; the old one is closed
        await client.ask({})

    await compare(scenario)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
async def test_topics_added_and_removed(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        topic, other = await target.topic(1), await target.topic(1)
        client = await Fetching.of(target, topic, version)
        unknown = Fetching(target, f"{topic}-not", NO_ID, version)
        await unknown.ask({0: 0})
        await unknown.ask({})
        await unknown.ask_otherwise({0: 0}, epoch=-1)
        await client.ask({0: 0, 5: 0})
        await client.ask({})
        deleted = DeleteTopicState(name=topic)
        await target.quietly(DeleteTopicsRequest(topics=[deleted], timeout_ms=9000), 6)
        request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
        await target.until(request, 12, lambda answer: answer.topics[0].error_code == 3)
        await client.ask({})
        await client.ask({})
        second = await Fetching.of(target, other, version)
        await second.ask({0: 0})

    await compare(scenario)


async def test_events_that_end_a_long_poll(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(3)
        client = await Fetching.of(target, topic)
        await client.ask({0: 0, 1: 0, 9: 0})  # an unknown one does not end it
        waiting = client.request({}, max_wait_ms=20_000, min_bytes=1)
        task = target.start(waiting, BY_NAME, "waits")
        await target.waits(task)
        await write(target, topic, GOOD, GOOD)
        await target.settle(task)
        client.epoch += 1
        await client.ask({0: 2, 1: 2})
        small = client.request({}, max_wait_ms=200, min_bytes=1)
        await target.settle(target.start(small, BY_NAME, "waits"))
        client.epoch += 1
        await client.ask({}, max_wait_ms=20_000, min_bytes=0)
        await client.ask({0: 7}, max_wait_ms=20_000, min_bytes=1)  # out of range
        await client.ask({}, 0, 1, max_wait_ms=20_000, min_bytes=1)  # only the unknown one is left

    await compare(scenario)


async def test_two_requests_in_one_epoch(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        client = await Fetching.of(target, topic)
        await client.ask({0: 0})
        waiting = client.request({}, max_wait_ms=1000, min_bytes=1)
        task = target.start(waiting, BY_NAME, "first")
        await asyncio.sleep(0.2)
        client.epoch += 1
        # A broker that has not read the first request yet refuses the epoch of the second one.
        await target.until(
            client.request({}),
            BY_NAME,
            lambda answer: answer.error_code != InvalidFetchSessionEpoch.errno,
        )
        await target.settle(task)

    await compare(scenario)


async def test_partition_order_rotates(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(3)
        for _ in range(3):
            await write(target, topic, GOOD, GOOD, GOOD)
        client = await Fetching.of(target, topic)
        offsets = dict.fromkeys(range(3), 0)
        changed = dict(offsets)
        for _ in range(9):
            answer = await client.ask(changed, max_bytes=len(GOOD))
            changed = {}
            for told in answer.responses[0].partitions:
                if told.records:
                    changed[told.partition_index] = offsets[told.partition_index] = (
                        offsets[told.partition_index] + 2
                    )

    await compare(scenario)


@pytest.mark.parametrize("seed", range(6))
async def test_random_requests(compare: Compare, seed: int) -> None:
    """A hundred random steps, the same on both."""

    async def scenario(target: Target) -> None:
        chance = Random(seed)
        topic = await target.topic(4)
        client = await Fetching.of(target, topic, chance.choice([BY_NAME, BY_ID]))
        ends = [0] * 4
        await client.ask(dict.fromkeys(range(chance.randrange(1, 5)), 0))
        for _ in range(100):
            index = chance.randrange(4)
            step = chance.choice(["write", "write", "delete", "fetch", "fetch", "fetch", "again"])
            if step == "write":
                request = produce(topic, GOOD)
                request.topic_data[0].partition_data[0].index = index
                await target.ask(request, 9)
                ends[index] += 2
            elif step == "delete" and chance.random() < 0.3:
                wanted = DeleteRecordsPartition(index, chance.randint(0, ends[index]))
                deleted = DeleteRecordsRequest([DeleteRecordsTopic(topic, [wanted])], 5000)
                await target.ask(deleted, 2)
            elif step == "again":
                await client.ask_otherwise({}, epoch=chance.choice([client.epoch - 1, 1, 99]))
            else:
                chosen = chance.sample(range(5), chance.randrange(4))
                kept = chance.randrange(len(chosen) + 1)
                offsets = {each: chance.randint(0, (*ends, 0)[each] + 1) for each in chosen[:kept]}
                await client.ask(
                    offsets,
                    *chosen[kept:],
                    max_bytes=chance.choice([1, len(GOOD), 200, 2**20]),
                    max_wait_ms=chance.choice([0, 5]),
                    min_bytes=1,
                    isolation_level=chance.choice([0, 1]),
                )
                if not client.session_id:  # nothing was left to fetch: start a new session
                    client.epoch = 0
                    await client.ask({0: 0, 1: 0})

    await compare(scenario)
