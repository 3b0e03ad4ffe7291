"""Share groups (KIP-932): requests that no client would send."""

from typing import Any

import pytest

from aiokafka_lite.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader, write_crc
from tests.conformance.conftest import Compare
from tests.conformance.requests import NOW, produce
from tests.conformance.sharing import ACCEPT, REJECT, RELEASE, RENEW, fill, new_sharer
from tests.conformance.target import Target
from tests.unit.testing.raw import make_batch

pytestmark = pytest.mark.real

LARGEST = 2**63 - 1


async def test_extreme_acknowledgements(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        a = await new_sharer(target, topic)
        await a.warm_up(0)
        await fill(target, topic, 5)
        await a.get(0)
        for ranges in (
            [(0, LARGEST, [ACCEPT])],
            [(0, LARGEST, [ACCEPT, ACCEPT])],
            [(-5, LARGEST, [ACCEPT])],
            [(-(2**63), LARGEST, [ACCEPT])],
            [(-(2**63), -(2**63), [ACCEPT])],
            [(-3, -2, [ACCEPT])],
            [(-3, 1, [ACCEPT])],
            [(-1, 0, [ACCEPT, ACCEPT])],
            [(LARGEST, LARGEST, [ACCEPT])],
            [(LARGEST - 1, LARGEST, [ACCEPT, ACCEPT])],
            [(0, 1, [ACCEPT]), (1, 2, [RELEASE])],
            [(0, 4, [ACCEPT]), (0, 4, [RELEASE])],
            [(0, 2, [127])],
            [(0, 2, [-128, 1, 1])],
            [(0, 4, [RENEW])],
        ):
            await a.acknowledge({0: ranges})
        for index in (-1, 1, 2**31 - 1, -(2**31)):
            await a.acknowledge({index: [(0, 4, [ACCEPT])]})
            await a.fetch(index, acks={index: [(0, 4, [ACCEPT])]}, forget=[index])
        await a.acknowledge({0: [(0, 4, [REJECT])]})

    await compare(scenario)


async def test_the_same_partition_twice(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        a = await new_sharer(target, topic)
        await a.warm_up(0)
        await fill(target, topic, 4)
        await a.get(0)
        topic_id = a.ids[topic]

        def named(*ranges: tuple[int, int]) -> Any:
            batches = [AcknowledgementBatch(first, last, [ACCEPT]) for first, last in ranges]
            return AcknowledgePartition(0, batches)

        async def ask(*topics: AcknowledgeTopic) -> None:
            request = ShareAcknowledgeRequest(a.group, a.member_id, a.session, False, list(topics))
            a.session += 1
            await target.ask(request, 2, a.name)

        await ask(AcknowledgeTopic(topic_id, [named((0, 0)), named((1, 1))]))
        await ask(AcknowledgeTopic(topic_id, [named((2, 2))]), AcknowledgeTopic(topic_id, []))
        await a.acknowledge({0: [(0, 0, [ACCEPT])]})
        await a.acknowledge({0: [(1, 1, [ACCEPT])]})
        await a.acknowledge({0: [(2, 2, [ACCEPT])]})

    await compare(scenario)


async def test_extreme_epochs(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        a = await new_sharer(target, topic)
        await a.warm_up(0)
        for epoch in (2**31 - 1, -(2**31), -2):
            await a.fetch(0, epoch=epoch)
            await a.acknowledge({0: [(0, 0, [ACCEPT])]}, epoch=epoch)
        await a.fetch(0, epoch=0)
        for epoch in (2**31 - 1, -(2**31), -2, 0):
            await a.acknowledge({}, epoch=epoch)
        await a.fetch(epoch=2**31 - 1)
        await a.fetch(epoch=1)

    await compare(scenario)


async def test_extreme_sizes(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        a = await new_sharer(target, topic)
        await a.warm_up(0)
        await fill(target, topic, 3, 3)
        await a.fetch(0)
        await a.acknowledge({0: [(0, 5, [RELEASE])]})
        for fields in (
            {"max_records": -1},
            {"max_bytes": -1},
            {"max_bytes": -(2**31)},
            {"batch_size": 0},
            {"batch_size": -5},
            {"min_bytes": -(2**31)},
            {"min_bytes": 2**31 - 1, "max_wait_ms": 300},
            {"max_wait_ms": -1},
            {"max_wait_ms": -(2**31)},
            {"share_acquire_mode": 127},
            {"share_acquire_mode": -128},
            {"max_records": 2**31 - 1, "max_bytes": 2**31 - 1, "batch_size": 2**31 - 1},
        ):
            answer = await a.fetch(0, epoch=0, **fields)
            if any(part.acquired_records for one in answer.responses for part in one.partitions):
                await a.acknowledge({0: [(0, 5, [RELEASE])]})

    await compare(scenario)


async def test_extreme_member_ids(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        a = await new_sharer(target, topic)
        await a.warm_up(0)
        for member_id in ("", "x" * 36, "x" * 37, "x" * 5000, "\0", "né"):
            a.member_id = member_id
            await a.fetch(0, epoch=0)
            await a.fetch(epoch=-1)

    await compare(scenario)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
async def test_batches_that_claim_too_many_records(
    compare: Compare, compression: Compression
) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        batch = bytearray(make_batch((NOW, None, b"v"), compression=compression))
        claimed = 30_000_000
        header = BatchHeader.read(batch)
        header._replace(last_offset_delta=claimed - 1, record_count=claimed).write(batch)
        write_crc(batch, 0, len(batch))
        await target.ask(produce(topic, bytes(batch)), 8)

    await compare(scenario)
