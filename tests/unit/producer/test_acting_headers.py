"""Headers that send records or stop the producer during their iteration damage no batch."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiokafka_lite.errors import ProducerClosed
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

Make = Callable[..., Any]


class Acting(list[tuple[str, bytes]]):
    """Headers that call something during their iteration."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__([("name", b"value")])
        self._act = act

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        self._act()
        return super().__iter__()


class Pair(list[Any]):
    """One header that calls something when it is accessed."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(["name", b"value"])
        self._act = act

    def __len__(self) -> int:
        self._act()
        return 2

    def __iter__(self) -> Iterator[Any]:
        self._act()
        return super().__iter__()


@pytest.mark.parametrize("kind", [Acting, lambda act: [Pair(act)], lambda act: (Pair(act),)])
@pytest.mark.parametrize("options", [{}, {"linger_ms": 20}, {"max_batch_size": 100}])
async def test_headers_that_send_do_not_mix_records(
    make_producer: Make, kind: Callable[[Callable[[], object]], Any], options: dict[str, Any]
) -> None:
    async with FakeCluster(topics={"orders": 1}, check_records=True) as cluster:
        producer = make_producer(cluster, **options)
        await producer.start()
        await producer.send_and_wait("orders", b"first")
        inner: list[Any] = []

        def send() -> None:
            if len(inner) < 5:
                inner.append(producer.send_nowait("orders", b"inner"))

        acks = {
            b"before": producer.send_nowait("orders", b"before"),
            b"outer": producer.send_nowait("orders", b"outer", headers=kind(send)),
            b"after": producer.send_nowait("orders", b"after"),
        }
        offsets = {value: (await ack).offset for value, ack in acks.items()}
        inner_offsets = [(await ack).offset for ack in inner]
        stored = {record.offset: record for record in cluster.records("orders")}
        assert inner
        assert sorted([0, *offsets.values(), *inner_offsets]) == list(range(len(stored)))
        for value, offset in offsets.items():
            assert stored[offset].value == value
        for offset in inner_offsets:
            assert stored[offset].value == b"inner"
        assert stored[offsets[b"outer"]].headers == (("name", b"value"),)
        assert offsets[b"before"] < min(inner_offsets) < offsets[b"outer"] < offsets[b"after"]


@pytest.mark.parametrize("kind", [Acting, lambda act: [Pair(act)]])
async def test_headers_that_end_the_producer_fail_their_record(
    make_producer: Make, kind: Callable[[Callable[[], object]], Any]
) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, linger_ms=60_000)
        await producer.start()
        await producer.partitions_for("orders")
        first = producer.send_nowait("orders", b"first")
        with pytest.raises(ProducerClosed):
            await producer.send_and_wait("orders", b"v", headers=kind(producer._sender.abort))
        with pytest.raises(ProducerClosed):
            await asyncio.wait_for(first, 20)


@pytest.mark.parametrize("kind", [Acting, lambda act: [Pair(act)]])
async def test_headers_that_append_to_a_batch_filled_by_hand(
    make_producer: Make, kind: Callable[[Callable[[], object]], Any]
) -> None:
    async with FakeCluster(topics={"orders": 1}, check_records=True) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        batch = producer.create_batch()
        left = [b"inner"]

        def append() -> None:
            if left:
                batch.append(key=None, value=left.pop(), timestamp=1)

        outer = batch.append(key=None, value=b"outer", timestamp=1, headers=kind(append))
        assert outer.offset == 1
        await (await producer.send_batch(batch, "orders", partition=0))
        assert [record.value for record in cluster.records("orders")] == [b"inner", b"outer"]
