"""Share groups (KIP-932): records acquired, acknowledged and delivered again."""

import asyncio
from typing import Any, Final

import pytest

from aiokafka_lite.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from aiokafka_lite.record.record_set import RecordSet
from tests.conformance.conftest import Compare
from tests.conformance.requests import fetch
from tests.conformance.sharing import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    fill,
    form_sharers,
    new_sharer,
)
from tests.conformance.target import PATIENCE, Target
from tests.conformance.transactional import Writer

pytestmark = pytest.mark.real

INVALID_RECORD_STATE: Final = 121


async def create_letters(target: Target, name: str) -> None:
    """Create a topic for dead letters, and wait until Kafka accepts its name."""
    config = CreatableTopicConfig("errors.deadletterqueue.group.enable", "true")
    request = CreateTopicsRequest([CreatableTopic(name, 1, -1, [], [config])], timeout_ms=20_000)
    (created,) = (await target.quietly(request, 5, "topics")).topics
    assert not created.error_code, created
    async with asyncio.timeout(30):
        while await target.leader_of(name, 0) < 0:
            await asyncio.sleep(0.05)


def holds_two_letters(answer: Any) -> bool:
    (part,) = answer.responses[0].partitions
    return len(RecordSet(bytes(part.records or b""), "letters", 0, 0).read(10)) >= 2


async def test_records_are_acquired_and_accepted(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 3, 2)
        a = await new_sharer(target, topic)
        await a.get(0)
        await a.fetch(acks={0: [(0, 4, [ACCEPT])]})
        await fill(target, topic, 2)
        await a.get()
        await a.acknowledge({0: [(5, 6, [ACCEPT, ACCEPT])]})
        await a.fetch()
        await a.fetch(epoch=-1)
        await a.fetch(0, epoch=0)

    await compare(scenario)


async def test_released_and_rejected_records(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 5)
        a = await new_sharer(target, topic)
        await a.get(0)
        await a.acknowledge({0: [(0, 0, [ACCEPT]), (1, 2, [RELEASE]), (3, 4, [REJECT, GAP])]})
        await a.get()
        await a.acknowledge({0: [(1, 1, [RELEASE]), (2, 2, [ACCEPT])]})
        await a.get()
        await a.acknowledge({0: [(1, 1, [ACCEPT])]})
        await a.fetch()

    await compare(scenario)


async def test_invalid_acknowledgements_change_nothing(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        a = await new_sharer(target, topic)
        await a.warm_up(0, 1)
        await fill(target, topic, 5)
        await a.get(0, 1)
        await a.acknowledge({0: [(0, 1, [ACCEPT])]})
        for ranges in (
            [(1, 2, [ACCEPT])],
            [(2, 5, [ACCEPT])],
            [(7, 8, [ACCEPT])],
            [(3, 2, [ACCEPT])],
            [(2, 3, [])],
            [(2, 4, [ACCEPT, ACCEPT])],
            [(2, 2, [5])],
            [(2, 2, [-1])],
            [(2, 2, [RENEW])],
            [(3, 3, [ACCEPT]), (2, 2, [ACCEPT])],
            [(2, 2, [ACCEPT]), (2, 2, [ACCEPT])],
            [(2, 3, [ACCEPT]), (3, 3, [ACCEPT])],
        ):
            await a.acknowledge({0: ranges})
        await a.acknowledge({1: [(0, 0, [ACCEPT])]})
        await a.acknowledge({7: [(0, 0, [ACCEPT])]})
        await a.fetch(acks={0: [(0, 0, [ACCEPT])], 1: [(0, 0, [ACCEPT])]})
        await a.acknowledge({0: [(2, 4, [ACCEPT])]})

    await compare(scenario)


async def test_session_epochs(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        a = await new_sharer(target, topic)
        await a.warm_up(0, 1)
        await fill(target, topic, 2)
        for epoch in (1, -1, -2):
            await a.fetch(0, epoch=epoch)
            await a.acknowledge({0: [(0, 0, [ACCEPT])]}, epoch=epoch)
        await a.acknowledge({}, epoch=0)
        await a.fetch(acks={0: [(0, 0, [ACCEPT])]}, epoch=0)
        await a.get(0, epoch=0)
        for epoch in (0, 2, 5):
            await a.acknowledge({}, epoch=epoch)
        await a.fetch(epoch=3)
        await a.fetch(1, epoch=1)
        await a.fetch(epoch=2)
        await a.fetch(forget=[0, 1], epoch=3)
        await a.fetch(acks={0: [(0, 0, [ACCEPT])]}, epoch=4)
        await a.acknowledge({0: [(1, 1, [ACCEPT])]}, epoch=-1)
        await a.acknowledge({}, epoch=-1)
        await a.fetch(epoch=-1)

    await compare(scenario)


async def test_two_members_share_a_partition(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 2, 2, 2)
        a = await new_sharer(target, topic)
        (b,) = await form_sharers(target, a, "b")
        await a.get(0, max_records=2, batch_size=2)
        await b.get(0, max_records=1, batch_size=1)
        await b.acknowledge({0: [(0, 0, [ACCEPT])]})
        await a.acknowledge({0: [(0, 1, [RELEASE])]})
        await b.get()
        await a.fetch(epoch=-1)
        await b.fetch(epoch=-1)

    await compare(scenario)


async def test_disconnecting_releases_records(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 2)
        a = await new_sharer(target, topic)
        (b,) = await form_sharers(target, a, "b")
        await a.get(0)
        await b.fetch(0)
        target.disconnect("a")
        await b.get(max_wait_ms=5000)  # Kafka's leader answers at the end of the wait only
        await a.fetch()

    await compare(scenario)


@pytest.mark.long
async def test_record_limit(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 5, 5)
        # The lock of offset 0 lasts to the end, however slow the machine is.
        a = await new_sharer(target, topic, share_record_lock_duration_ms=60_000)
        await a.get(0, max_records=3, share_acquire_mode=1)
        await a.get(max_records=4, share_acquire_mode=1)
        await a.acknowledge({0: [(1, 3, [RELEASE])]})
        await a.get(max_records=2, share_acquire_mode=1)
        await a.get(max_records=3)
        await a.fetch(max_records=0)
        await a.fetch(acks={0: [(0, 0, [ACCEPT])]}, share_acquire_mode=2)

        # That fetch fails after it has accepted the record. Kafka refuses to accept it again until
        # this is stored; then the record is before the start offset, where it accepts anything.
        async with asyncio.timeout(PATIENCE):
            code = INVALID_RECORD_STATE
            while code == INVALID_RECORD_STATE:
                again = a.acknowledge_request({0: [(0, 0, [ACCEPT])]})
                (topic_answer,) = (await target.quietly(again, 2, a.name)).responses
                code = topic_answer.partitions[0].error_code
        target.note("accepted again", code)

    await compare(scenario)


async def test_renewing_locks(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 3)
        a = await new_sharer(target, topic)
        await a.get(0)
        await a.acknowledge({0: [(0, 2, [RENEW])]}, renew=True)
        await a.acknowledge({0: [(0, 1, [RENEW, ACCEPT])]}, renew=True)
        await a.fetch(acks={0: [(0, 0, [RENEW])]}, is_renew_ack=True)
        await a.fetch(
            acks={0: [(0, 0, [RENEW])]}, is_renew_ack=True, max_bytes=0, max_records=0, epoch=3
        )
        await a.acknowledge({0: [(1, 1, [RENEW])]}, renew=True)

    await compare(scenario)


async def test_attempts_run_out(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 8)
        a = await new_sharer(target, topic)
        await a.get(0)
        await a.acknowledge({0: [(0, 7, [RELEASE])]})
        for _ in range(24):
            answer = await a.fetch(max_wait_ms=500, min_bytes=1)
            parts = [part for one in answer.responses for part in one.partitions]
            ranges = [
                (one.first_offset, one.last_offset, [RELEASE])
                for part in parts
                for one in part.acquired_records
            ]
            if not ranges:
                break
            await a.acknowledge({0: ranges})

    await compare(scenario)


async def test_dead_letters(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        for copies in ("false", "true"):
            letters = target.unique("dlq.letters")
            await create_letters(target, letters)
            a = await new_sharer(
                target,
                topic,
                errors_deadletterqueue_topic_name=letters,
                errors_deadletterqueue_copy_record_enable=copies,
                share_delivery_count_limit=2,
            )
            await fill(target, topic, 3)
            await a.get(0)
            answer = await a.acknowledge({0: [(0, 2, [REJECT, RELEASE, ACCEPT])]})
            assert not answer.error_code
            await a.get()
            await a.acknowledge({0: [(1, 1, [RELEASE])]})
            while not holds_two_letters(found := await target.quietly(fetch(letters, 0), 11)):
                await asyncio.sleep(0.05)
            (part,) = found.responses[0].partitions
            records = RecordSet(bytes(part.records), letters, 0, 0).read(10)
            target.note(
                "letters",
                tuple((one.key, one.value, tuple(one.headers)) for one in records),
            )
            await a.fetch(epoch=-1)
            await a.leave()
            topic = await target.topic(1)

    await compare(scenario)


async def test_the_limit_of_locks(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 60, 60, 60)
        a = await new_sharer(target, topic, share_partition_max_record_locks=100)
        (b,) = await form_sharers(target, a, "b")
        await a.get(0)
        await b.fetch(0, max_wait_ms=300)
        await b.fetch(max_wait_ms=300)
        await a.acknowledge({0: [(10, 19, [ACCEPT])]})
        await b.fetch(max_wait_ms=300)
        await a.acknowledge({0: [(0, 9, [ACCEPT])]})
        await b.fetch(max_wait_ms=300)

    await compare(scenario)


async def test_batch_sizes(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 5, 5, 5, 5)
        a = await new_sharer(target, topic)
        await a.get(0, batch_size=7, max_records=12)
        await a.acknowledge({0: [(3, 12, [RELEASE])]})
        await a.get(batch_size=3, max_records=4)
        await a.get(batch_size=3, max_records=400)

    await compare(scenario)


async def test_groups_that_begin_at_the_end(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 3)
        a = await new_sharer(target, topic, share_auto_offset_reset="latest")
        await a.warm_up(0)
        await fill(target, topic, 2)
        await a.get(0)

    await compare(scenario)


async def test_groups_that_read_committed_records(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        a = await new_sharer(target, topic, share_isolation_level="read_committed")
        await a.warm_up(0)
        writer = Writer(target, target.unique("tx"))
        await writer.await_coordinator()
        await writer.init()
        await writer.add(topic, 0)
        await writer.produce(topic, 0, count=2)
        await a.fetch(0, max_wait_ms=300, min_bytes=1)
        await writer.end(committed=False)
        await writer.add(topic, 0)
        await writer.produce(topic, 2, count=2)
        await writer.end(committed=True)
        await a.get()
        await a.acknowledge({0: [(2, 2, [GAP]), (3, 4, [ACCEPT]), (5, 5, [GAP])]})
        await a.fetch(max_wait_ms=300, min_bytes=1)

    await compare(scenario)
