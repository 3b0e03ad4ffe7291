"""Share groups (KIP-932): sessions, their connections, and what a response contains."""

import asyncio

import pytest

from aiokafka_lite.errors import UnknownTopicOrPartitionError
from aiokafka_lite.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from aiokafka_lite.protocol.messages.delete_topics import DeleteTopicsRequest
from aiokafka_lite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.conformance.administering import move, placed
from tests.conformance.conftest import Compare
from tests.conformance.membership import new_group
from tests.conformance.requests import produce
from tests.conformance.sharing import (
    ACCEPT,
    RELEASE,
    Sharer,
    batch_of,
    configure_group,
    fill,
    form_sharers,
    new_sharer,
)
from tests.conformance.target import Target

pytestmark = pytest.mark.real


async def delete_before(target: Target, topic: str, offset: int) -> None:
    """Move the log start of partition 0, without recording."""
    wanted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])
    answer = await target.quietly(DeleteRecordsRequest([wanted], 10_000), 2, "topics")
    assert not answer.topics[0].partitions[0].error_code, answer


def is_gone(answer: MetadataResponse) -> bool:
    return answer.topics[0].error_code == UnknownTopicOrPartitionError.errno


async def test_fetches_overtaken_by_another_request(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        a = await new_sharer(target, topic)
        await a.warm_up(0)
        await fill(target, topic, 2)
        await a.get(0)
        request = a.fetch_request(acks={0: [(0, 0, [ACCEPT])]}, max_wait_ms=10_000, min_bytes=1)
        waiting = target.start(request, 2, a.name)
        await target.waits(waiting)
        a.name = "other"
        await a.acknowledge({0: [(1, 1, [ACCEPT])]})
        await fill(target, topic, 1)
        await target.settle(waiting)
        await a.fetch()
        await a.fetch(0, epoch=0, max_wait_ms=300, min_bytes=1)  # it holds the record already
        await a.acknowledge({0: [(2, 2, [ACCEPT])]})

    await compare(scenario)


async def test_groups_without_a_member(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        await fill(target, topic, 2)
        group = await new_group(target)
        a = Sharer(target, group, "a", [topic])
        await a.look_up()
        for _ in range(2):
            await a.get(0, max_wait_ms=3000)  # the leader takes time to find the error
        await a.acknowledge({0: [(0, 0, [ACCEPT])]})
        await a.get(max_wait_ms=3000)
        await a.fetch(epoch=-1)
        b = Sharer(target, group, "", [topic])
        await b.look_up()
        b.member_id = ""
        await b.fetch(0)
        b.member_id, b.group = "b", ""
        await b.fetch(0, epoch=0)
        await b.acknowledge({0: [(0, 0, [ACCEPT])]})

    await compare(scenario)


async def test_errors_of_some_partitions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        a = await new_sharer(target, topic)
        await a.warm_up(0)
        request = a.fetch_request(0, 9, max_wait_ms=1500, min_bytes=1)
        waiting = target.start(request, 2, a.name)
        await target.waits(waiting)
        await target.settle(waiting)
        waiting = target.start(a.fetch_request(max_wait_ms=20_000, min_bytes=1), 2, a.name)
        await target.waits(waiting)
        await fill(target, topic, 1)
        await target.settle(waiting)
        request = a.fetch_request(forget=[0], max_wait_ms=10_000, min_bytes=1)
        waiting = target.start(request, 2, a.name)
        await target.waits(waiting)
        await target.settle(waiting)

    await compare(scenario)


async def test_partitions_without_acknowledgements(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(3)
        a = await new_sharer(target, topic)
        await a.warm_up(0, 1)
        await fill(target, topic, 4)
        await a.get(0, 1)
        await a.acknowledge({0: [(0, 0, [ACCEPT])], 1: [], 2: [], 7: []})
        await a.acknowledge({0: [], 1: []})
        await a.acknowledge({0: [(0, 0, [ACCEPT])], 1: []})
        await a.acknowledge({0: [(3, 2, [ACCEPT])], 1: []})
        await a.acknowledge({})
        await a.fetch(acks={0: [(1, 1, [ACCEPT])], 1: []})
        await a.fetch(acks={0: [(1, 1, [ACCEPT])], 1: []})
        await a.fetch(acks={0: [(2, 2, [ACCEPT])], 7: []})
        await a.fetch(acks={0: [(3, 3, [ACCEPT])], 7: [(0, 0, [ACCEPT])]}, forget=[7])
        await a.fetch()

    await compare(scenario)


async def test_sizes_of_zero(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 2, 2)
        a = await new_sharer(target, topic)
        options = {"max_wait_ms": 20_000, "min_bytes": 1}
        await a.fetch(0, 5, max_bytes=0, **options)
        await a.fetch(max_records=0, **options)
        await a.get(forget=[5])
        await a.acknowledge({0: [(0, 3, [RELEASE])]})
        await a.fetch(max_bytes=0, **options)
        await a.fetch(acks={0: [(0, 0, [ACCEPT])]}, max_bytes=0, **options)
        await a.get(max_bytes=1)

    await compare(scenario)


async def test_connections_with_several_sessions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 2, 2)
        a = await new_sharer(target, topic, share_record_lock_duration_ms=60_000)
        b, c = await form_sharers(target, a, "b", "c")
        await c.fetch(0, max_records=0)
        a.name = b.name = "shared"
        await a.get(0, max_records=2, batch_size=2)
        await b.get(0, max_records=2, batch_size=2)
        target.disconnect("shared")
        await b.await_end_of_session()
        await c.get(max_wait_ms=3000)  # the records of b, which opened the last session
        await a.acknowledge({0: [(0, 0, [ACCEPT])]})
        await a.fetch(epoch=-1)
        await c.get(max_wait_ms=3000)

    await compare(scenario)


async def test_connections_whose_first_session_was_closed(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 2, 2)
        a = await new_sharer(target, topic, share_record_lock_duration_ms=60_000)
        b, c = await form_sharers(target, a, "b", "c")
        await c.fetch(0, max_records=0)
        a.name = b.name = "shared"
        await a.get(0, max_records=2, batch_size=2)
        await b.get(0, max_records=2, batch_size=2)
        await a.fetch(epoch=-1)
        await c.get(max_wait_ms=3000)
        target.disconnect("shared")
        await c.fetch(max_wait_ms=500, min_bytes=1)
        await b.acknowledge({0: [(2, 3, [ACCEPT])]})
        await c.acknowledge({0: [(0, 1, [ACCEPT])]})

    await compare(scenario)


async def test_groups_whose_last_session_ends(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        a = await new_sharer(target, topic)
        await a.warm_up(0, 1)
        await fill(target, topic, 2, 2)
        await a.get(0, max_records=2, batch_size=2)
        await a.fetch(1, forget=[0])
        target.disconnect("a")
        await a.await_end_of_session()
        await a.get(0, epoch=0)
        await a.fetch(epoch=-1)
        await a.acknowledge({0: [(0, 0, [ACCEPT])]})
        await a.get(0, epoch=0, max_wait_ms=3000)

    await compare(scenario)


async def test_fetches_of_closed_connections(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        a = await new_sharer(target, topic)
        (b,) = await form_sharers(target, a, "b")
        await b.warm_up(0)
        await b.fetch(0, epoch=0)
        await a.fetch(0)
        waiting = target.start(a.fetch_request(max_wait_ms=20_000, min_bytes=1), 2, a.name)
        await target.waits(waiting)
        target.disconnect("a")
        await asyncio.wait([waiting])
        await fill(target, topic, 2)
        # A second attempt if the broker acquired them for the waiting request of the member that
        # had disconnected; a first one if it removed that request before.
        answer = await target.quietly(b.fetch_request(max_wait_ms=4000, min_bytes=1), 2, b.name)
        (found,) = answer.responses[0].partitions
        (acquired,) = found.acquired_records
        assert (acquired.first_offset, acquired.last_offset) == (0, 1)
        assert acquired.delivery_count in (1, 2)
        # Kafka removes the session a moment after the connection.
        async with asyncio.timeout(30):
            while not (await target.quietly(a.fetch_request(), 2, a.name)).error_code:
                await asyncio.sleep(0.05)
        await a.fetch()

    await compare(scenario)


async def test_records_deleted_before_they_are_read(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        a = await new_sharer(target, topic)
        await a.warm_up(0)
        await fill(target, topic, 3, 3, 3)
        await delete_before(target, topic, 4)
        for _ in range(3):
            await a.fetch(0, max_wait_ms=500, min_bytes=1)
        await a.acknowledge({0: [(4, 8, [ACCEPT])]})

    await compare(scenario)


async def test_records_deleted_while_they_are_acquired(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 4, 4, 4)
        a = await new_sharer(target, topic)
        await a.get(0, max_records=4, batch_size=4)
        await a.acknowledge({0: [(0, 1, [RELEASE])]})
        await delete_before(target, topic, 3)
        for _ in range(2):
            await a.fetch(max_records=4, batch_size=4, max_wait_ms=500, min_bytes=1)
        await a.acknowledge({0: [(2, 3, [ACCEPT])]})
        await delete_before(target, topic, 10)
        await a.acknowledge({0: [(4, 7, [RELEASE])]})
        for _ in range(3):
            await a.fetch(max_wait_ms=500, min_bytes=1)

    await compare(scenario)


async def test_deleted_topics(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic, other = await target.topic(1), await target.topic(1)
        a = await new_sharer(target, topic, other)
        await a.warm_up(0)
        await fill(target, topic, 3)
        await a.get(0)
        waiting = target.start(a.fetch_request(max_wait_ms=5000, min_bytes=1), 2, a.name)
        await target.waits(waiting)
        answer = await target.quietly(DeleteTopicsRequest([], [topic], 10_000), 3, "topics")
        assert not answer.responses[0].error_code, answer
        await target.settle(waiting)
        await target.until(MetadataRequest([MetadataRequestTopic(name=topic)], False), 9, is_gone)
        await a.fetch()
        await a.fetch(max_wait_ms=2000, acks={0: [(0, 0, [ACCEPT])]})
        await a.acknowledge({0: [(3, 0, [ACCEPT])]})
        await a.fetch(0, epoch=0)
        await a.fetch(epoch=-1)

    await compare(scenario)


async def test_leaders_that_move(compare3: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await placed(target, [0, 1])
        group = target.unique("group")
        await configure_group(target, group, share_auto_offset_reset="earliest")
        home = f"home@{await target.coordinator_of(group)}"
        a, b, c = (Sharer(target, group, name, [topic], home) for name in ("a@0", "b@0", "c@1"))
        for one in (a, b, c):
            await one.join()
        await c.fetch(0)
        await c.acknowledge({0: [(0, 0, [ACCEPT])]})
        await c.fetch(acks={0: [(0, 0, [ACCEPT])]})
        await a.warm_up(0)
        request = produce(topic, batch_of(4))
        answer = await target.quietly(request, 8, "producer@0")
        assert not answer.responses[0].partition_responses[0].error_code, answer
        await a.get(0)
        await b.fetch(0)
        await a.acknowledge({0: [(0, 0, [ACCEPT]), (1, 1, [RELEASE])]})
        await b.get()
        waiting = target.start(b.fetch_request(max_wait_ms=8000, min_bytes=1), 2, b.name)
        await target.waits(waiting)
        await move(target, topic, 0, [1, 0])
        await move(target, topic, 0, [1])
        await target.settle(waiting)
        await b.fetch()
        await b.fetch(acks={0: [(1, 1, [ACCEPT])]})
        await b.acknowledge({0: [(1, 1, [ACCEPT])]})
        await c.get()

    await compare3(scenario)
