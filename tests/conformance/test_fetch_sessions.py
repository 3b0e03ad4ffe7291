"""Fetch sessions (KIP-227), topic ids in them (KIP-516), and what a wait is ended by."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

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
        """In the session: its answer's id is taken up, and the epoch goes on."""
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
async def test_only_news_are_told(compare: Compare, version: int) -> None:
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


async def test_sessions_that_are_not_there_or_not_so(compare: Compare) -> None:
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
async def test_topics_that_come_and_go(compare: Compare, version: int) -> None:
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


async def test_what_ends_a_wait(compare: Compare) -> None:
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
        await client.ask({})
        await target.settle(task)

    await compare(scenario)


async def test_partitions_take_turns(compare: Compare) -> None:
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
