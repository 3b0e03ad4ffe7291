"""A coordinator that neither responds nor closes connections."""

import asyncio

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import KafkaTimeoutError
from aiokafka_lite.producer.transactions import coordinator_requests
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import CoordinatorType, FakeCluster

pytestmark = pytest.mark.unhurried

NAME = "payments"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_requests, "SILENT_FOR", 0.05)


@pytest.mark.parametrize("version", ["3.9", None], ids=["adds partitions", "batches add"])
@pytest.mark.parametrize(
    ("api", "kind", "key"),
    [
        (ApiKey.END_TXN, CoordinatorType.TRANSACTION, NAME),
        (ApiKey.TXN_OFFSET_COMMIT, CoordinatorType.GROUP, "readers"),
    ],
    ids=["transaction", "group"],
)
async def test_it_is_left_for_the_one_that_has_its_place(
    api: ApiKey, kind: CoordinatorType, key: str, version: str | None
) -> None:
    async with (
        FakeCluster(brokers=3, topics={"orders": 1}, version=version) as cluster,
        asyncio.timeout(20),  # the requests would wait for 40
        AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            transactional_id=NAME,
            retry_backoff_ms=10,
        ) as producer,
    ):
        offsets = {TopicPartition("orders", 0): 1}
        async with producer.transaction():
            await producer.send_offsets_to_transaction(offsets, "readers")
        kinds = CoordinatorKind.GROUP, CoordinatorKind.TRANSACTION
        node = producer._cluster.coordinators.get(kinds[kind is CoordinatorType.TRANSACTION], key)
        assert node is not None
        fault = cluster.control(api, node=node, drop=True)
        await producer.begin_transaction()
        await producer.send("orders", b"x", partition=0)

        async def end() -> None:
            await producer.send_offsets_to_transaction(offsets, "readers")
            await producer.commit_transaction()

        ending = asyncio.create_task(end())
        await fault.struck()
        await asyncio.sleep(0.2)  # several checks: it is still the coordinator
        assert not ending.done()
        cluster.move_coordinator(key, (node + 1) % 3, kind)
        await ending
        async with producer.transaction():
            await producer.send("orders", b"y", partition=0)


async def test_a_silent_coordinator_that_was_not_replaced_is_waited_for() -> None:
    async with (
        FakeCluster(topics={"orders": 1}) as cluster,
        AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            transactional_id=NAME,
            max_block_ms=500,
            request_timeout_ms=1_000,
        ) as producer,
    ):
        fault = cluster.control(ApiKey.END_TXN, drop=True)
        await producer.begin_transaction()
        await producer.send("orders", b"x", partition=0)
        with pytest.raises(KafkaTimeoutError):
            await producer.commit_transaction()
        assert fault.hits == 1
        assert cluster.count(ApiKey.END_TXN) == 1
        async with asyncio.timeout(20):
            while True:
                try:
                    await producer.commit_transaction()
                    break
                except KafkaTimeoutError:
                    continue
        assert cluster.count(ApiKey.END_TXN) == 2


async def test_a_replacement_that_is_gone_before_it_is_asked_is_looked_up_again() -> None:
    async with (
        FakeCluster(brokers=3, topics={"orders": 1}) as cluster,
        asyncio.timeout(20),
        AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            transactional_id=NAME,
            retry_backoff_ms=10,
        ) as producer,
    ):
        async with producer.transaction():
            await producer.send("orders", b"x", partition=0)
        coordinators = producer._cluster.coordinators
        node = coordinators.get(CoordinatorKind.TRANSACTION, NAME)
        assert node is not None
        cluster.move_coordinator(NAME, (node + 1) % 3, CoordinatorType.TRANSACTION)
        # As the watch leaves it; the metadata no longer lists the broker.
        coordinators.set(CoordinatorKind.TRANSACTION, NAME, 9)
        async with producer.transaction():
            await producer.send("orders", b"y", partition=0)
        assert coordinators.get(CoordinatorKind.TRANSACTION, NAME) == (node + 1) % 3
