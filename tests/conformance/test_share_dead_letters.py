"""The dead letters of share groups (KIP-1191): which topics get them, and what they contain."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aiokafka_lite.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from aiokafka_lite.protocol.messages.describe_configs import DescribeConfigsResponse
from aiokafka_lite.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
)
from aiokafka_lite.record.record_set import RecordSet
from tests.conformance.administering import BROKER, GROUP, TOPIC, alter, describe
from tests.conformance.conftest import Compare
from tests.conformance.requests import fetch
from tests.conformance.sharing import REJECT, RELEASE, Sharer, fill, new_sharer
from tests.conformance.target import PATIENCE, Target
from tests.conformance.test_share_administration import offsets

pytestmark = pytest.mark.real

ACCEPTS = "errors.deadletterqueue.group.enable"
AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
SET, DELETE = 0, 1
NO_TOPIC = 3


async def create(target: Target, name: str, partitions: int = 1, **configs: object) -> None:
    """Create a topic, and wait until it has leaders; without recording."""
    settings = [
        CreatableTopicConfig(key.replace("_", "."), str(value)) for key, value in configs.items()
    ]
    request = CreateTopicsRequest([CreatableTopic(name, partitions, -1, [], settings)], 20_000)
    (created,) = (await target.quietly(request, 5, "topics")).topics
    assert not created.error_code, created
    async with asyncio.timeout(PATIENCE):
        while await target.leader_of(name, partitions - 1) < 0:
            await asyncio.sleep(0.05)


@asynccontextmanager
async def brokers_with(target: Target, **configs: str) -> AsyncIterator[None]:
    """Change configurations of all brokers for a while."""
    names = {AUTO_CREATE.split(".")[2]: AUTO_CREATE, "topic": PREFIX}
    changes = {names[key]: value for key, value in configs.items()}

    def has_changed(answer: DescribeConfigsResponse) -> bool:
        found = {one.name: one.value for one in answer.results[0].configs}
        return found == changes

    request = alter(BROKER, "", *[(name, SET, value) for name, value in changes.items()])
    await target.ask(request, 1)
    node = await target.coordinator_of("any")
    try:
        await target.until(describe(BROKER, str(node), *changes), 4, has_changed)
        yield
    finally:
        await target.ask(alter(BROKER, "", *[(name, DELETE, None) for name in changes]), 1)


async def reject_one(target: Target, letters: str, **configs: object) -> Sharer:
    """Let a new group reject the only record of a topic; wait until it is archived."""
    topic = await target.topic(3)
    a = await new_sharer(target, topic, errors_deadletterqueue_topic_name=letters, **configs)
    await a.warm_up(0)
    await fill(target, topic, 1)
    await a.get(0)
    await a.acknowledge({0: [(0, 0, [REJECT])]})
    await until_done(target, a)
    return a


async def until_done(target: Target, member: Sharer) -> None:
    """Wait until the group has accepted or archived all records of partition 0.

    Without recording: the start offset that a broker reports lags behind.
    """
    request = offsets(member.group, (member.topics[0], [0]))

    def is_done(answer: DescribeShareGroupOffsetsResponse) -> bool:
        return answer.groups[0].topics[0].partitions[0].lag == 0

    async with asyncio.timeout(PATIENCE):
        while not is_done(await target.quietly(request, 1)):
            await asyncio.sleep(0.05)


async def note_letters(target: Target, name: str) -> None:
    """Record the letters of partition 0."""
    answer = await target.quietly(fetch(name, 0), 11)
    (part,) = answer.responses[0].partitions
    if part.error_code:
        target.note(f"letters in {name}", part.error_code)
        return
    found = []
    batches = RecordSet(bytes(part.records or b""), name, 0, 0)
    while not batches.exhausted:
        found += batches.read(100)
    target.note(
        f"letters in {name}",
        tuple((one.key, one.value, tuple(one.headers)) for one in found),
    )


async def test_topics_that_do_not_accept_letters(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        closed, unprefixed = target.unique("dlq.closed"), target.unique("letters")
        await create(target, closed)
        await create(target, unprefixed, errors_deadletterqueue_group_enable="true")
        for name in (closed, unprefixed, target.unique("dlq.missing")):
            await reject_one(target, name)
            await note_letters(target, name)

    await compare(scenario)


async def test_names_of_topics_for_letters(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group, setting, current = target.unique("group"), "errors.deadletterqueue.topic.name", ""

        def has_caught_up(answer: DescribeConfigsResponse) -> bool:
            """True if the broker has replayed the change, which the controller confirms earlier."""
            found = answer.results[0].configs
            return len(found) == 1 and found[0].value == current

        for name in ("letters", "dlq.", "", "__letters", "__dlq.letters", "a b", "x" * 250, "."):
            answer = await target.ask(alter(GROUP, group, (setting, SET, name)), 1)
            if not answer.responses[0].error_code:
                current = name
            await target.until(describe(GROUP, group, setting), 4, has_caught_up)

    await compare(scenario)


async def test_topics_that_brokers_create_for_letters(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        async with brokers_with(target, auto="true"):
            name = target.unique("dlq.created")
            await reject_one(target, name, errors_deadletterqueue_copy_record_enable="true")
            await note_letters(target, name)
            await target.ask(describe(TOPIC, name, ACCEPTS, "message.timestamp.type"), 4)
            other = target.unique("other")
            await reject_one(target, other)
            await note_letters(target, other)
        async with brokers_with(target, topic=""):
            other = target.unique("any")
            await create(target, other, errors_deadletterqueue_group_enable="true")
            await reject_one(target, other)
            await note_letters(target, other)

    await compare(scenario)


async def test_letters_larger_than_a_batch(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        for largest in (600, 100):
            letters = target.unique("dlq.small")
            await create(
                target,
                letters,
                errors_deadletterqueue_group_enable="true",
                max_message_bytes=largest,
            )
            topic = await target.topic(1)
            a = await new_sharer(
                target,
                topic,
                errors_deadletterqueue_topic_name=letters,
                errors_deadletterqueue_copy_record_enable="true",
            )
            await a.warm_up(0)
            await fill(target, topic, 6)
            await a.get(0)
            await a.acknowledge({0: [(0, 5, [REJECT])]})
            await until_done(target, a)
            await note_letters(target, letters)

    await compare(scenario)


async def test_causes_of_letters(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        letters = target.unique("dlq.causes")
        await create(target, letters, 2, errors_deadletterqueue_group_enable="true")
        topic = await target.topic(1)
        a = await new_sharer(
            target,
            topic,
            errors_deadletterqueue_topic_name=letters,
            share_delivery_count_limit=2,
        )
        await a.warm_up(0)
        await fill(target, topic, 3)
        await a.get(0)
        await a.acknowledge({0: [(0, 0, [REJECT]), (1, 2, [RELEASE])]})
        await a.get()
        await a.acknowledge({0: [(1, 1, [REJECT]), (2, 2, [RELEASE])]})
        await until_done(target, a)
        await note_letters(target, letters)

    await compare(scenario)
