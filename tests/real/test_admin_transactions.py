"""Transactions on a real Kafka: kafka-python verifies what the admin client did."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.admin import AbortTransactionSpec, AIOKafkaAdminClient
from aiokafka_lite.errors import (
    InvalidProducerEpoch,
    ProducerFenced,
    TransactionalIdNotFoundError,
    UnsupportedVersionError,
)
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition
from tools.kafka import KafkaCluster, KafkaNotAvailable, OwnCluster

python_kafka = pytest.importorskip("kafka")

PATIENCE = 60  # seconds


@pytest.fixture
async def admin3(kafka3: OwnCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(bootstrap_servers=kafka3.bootstrap_servers) as client:
        yield client


@pytest.fixture
def judge(kafka3: OwnCluster) -> Iterator[Any]:
    client = python_kafka.KafkaAdminClient(bootstrap_servers=kafka3.bootstrap_servers)
    yield client
    client.close()


async def ask(method: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.to_thread(method, *arguments)


def an_id() -> str:
    return f"tx-{uuid.uuid4().hex[:10]}"


async def stable_end(servers: str, tp: TopicPartition) -> int:
    async with AIOKafkaConsumer(
        bootstrap_servers=servers, isolation_level="read_committed"
    ) as consumer:
        return (await consumer.end_offsets([tp]))[tp]


async def test_transactions_are_described_as_kafka_python_describes_them(
    kafka3, admin3, topic3, judge
) -> None:
    name, open_id, done_id = topic3(partitions=2), an_id(), an_id()
    tp = TopicPartition(name, 0)
    servers = kafka3.bootstrap_servers
    async with (
        AIOKafkaProducer(bootstrap_servers=servers, transactional_id=done_id) as done,
        done.transaction(),
    ):
        await done.send(name, b"done", partition=1)
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id=open_id) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(name, b"open", partition=0)
        listings = await admin3.list_transactions(states=["Ongoing"])
        assert listings.errors() == {}
        ours = {each.transactional_id: each.producer_id for each in listings.valid()}
        by_node = await ask(judge.list_transactions)
        seen = {each.transactional_id: each for found in by_node.values() for each in found}
        assert ours[open_id] == seen[open_id].producer_id
        assert done_id not in ours
        matching = await admin3.list_transactions(transactional_id_pattern=f"{open_id[:-1]}.")
        assert [each.transactional_id for each in matching.valid()] == [open_id]
        assert (await admin3.list_transactions(min_duration_ms=3_600_000)).valid() == []

        results = await admin3.describe_transactions([open_id, done_id, "none"])
        described = results.value(open_id)
        theirs = (await ask(judge.describe_transactions, [open_id]))[open_id]
        assert described.state == "Ongoing"
        assert (described.producer_id, described.producer_epoch) == (
            theirs.producer_id,
            theirs.producer_epoch,
        )
        assert described.partitions == {tp}
        assert described.coordinator_id == await admin3.find_coordinator(open_id, 1)
        assert isinstance(results["none"], TransactionalIdNotFoundError)
        async with asyncio.timeout(PATIENCE):  # Kafka writes the markers after it has answered
            while (await admin3.describe_transactions([done_id])).value(done_id).partitions:
                await asyncio.sleep(0.05)

        producers = (await admin3.describe_producers([tp])).value(tp)
        state = (await ask(judge.describe_producers, [python_kafka.TopicPartition(name, 0)]))[
            python_kafka.TopicPartition(name, 0)
        ]
        [writing] = producers
        assert {(each.producer_id, each.producer_epoch) for each in producers} == {
            (each.producer_id, each.producer_epoch) for each in state.active_producers
        }
        assert (writing.transaction_start_offset, writing.last_sequence) == (0, 0)
        await producer.abort_transaction()


@pytest.mark.parametrize("how", ["fence", "terminate"])
async def test_producers_are_fenced(kafka3, admin3, topic3, judge, how) -> None:
    name, transactional_id = topic3(partitions=1), an_id()
    servers, tp = kafka3.bootstrap_servers, TopicPartition(name, 0)
    async with AIOKafkaProducer(
        bootstrap_servers=servers, transactional_id=transactional_id
    ) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(name, b"lost", partition=0)
        before = (await admin3.describe_transactions([transactional_id])).value(transactional_id)
        if how == "fence":
            fenced = (await admin3.fence_producers([transactional_id])).value(transactional_id)
            assert fenced.producer_id == before.producer_id
            assert fenced.producer_epoch > before.producer_epoch
        else:
            await admin3.force_terminate_transaction(transactional_id)
        after = (await ask(judge.describe_transactions, [transactional_id]))[transactional_id]
        assert after.producer_epoch > before.producer_epoch
        with pytest.raises(ProducerFenced):
            await producer.commit_transaction()
    async with asyncio.timeout(PATIENCE):
        while await stable_end(servers, tp) != 2:  # the record and its abort marker
            await asyncio.sleep(0.2)


async def test_an_open_transaction_of_a_partition_is_aborted(kafka3, admin3, topic3, judge) -> None:
    name, transactional_id = topic3(partitions=1), an_id()
    servers, tp = kafka3.bootstrap_servers, TopicPartition(name, 0)
    theirs = python_kafka.TopicPartition(name, 0)
    async with AIOKafkaProducer(
        bootstrap_servers=servers, transactional_id=transactional_id
    ) as producer:
        async with producer.transaction():  # raises the producer's epoch (KIP-890)
            await producer.send(name, b"kept", partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait(name, b"lost", partition=0)
        assert await stable_end(servers, tp) == 2
        [found] = (await admin3.describe_producers([tp])).value(tp)
        # The coordinator's epoch grows when its partition moves, as other tests make it do.
        epochs = found.producer_epoch, found.coordinator_epoch
        stale = AbortTransactionSpec(tp, found.producer_id, epochs[0] - 1, epochs[1])
        with pytest.raises(InvalidProducerEpoch, match=name):
            await admin3.abort_transaction(stale)
        await admin3.abort_transaction(AbortTransactionSpec(tp, found.producer_id, *epochs))
        assert await stable_end(servers, tp) == 4
        [state] = (await ask(judge.describe_producers, [theirs]))[theirs].active_producers
        assert state.current_transaction_start_offset in (-1, None)
        await admin3.fence_producers([transactional_id])


@pytest.fixture(scope="module", params=["2.8.2", "0.11.0.3"])
def old(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    try:
        with KafkaCluster(request.param) as cluster:
            yield cluster
    except KafkaNotAvailable as error:
        pytest.skip(f"no real Kafka: {error}")


@pytest.mark.brokers
@pytest.mark.timeout(600)
async def test_groups_and_transactions_of_old_brokers(old: KafkaCluster) -> None:
    is_2_8 = old.release.number >= (2, 8)
    old.create_topic("orders", 2)
    servers = old.bootstrap_servers
    one, missing = TopicPartition("orders", 0), TopicPartition("none", 0)
    groups = ["a", "b"]
    async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
        for group in groups:
            results = await admin.alter_consumer_group_offsets(group, {one: 4})
            results.raise_for_errors()
        listed = await admin.list_consumer_groups_offsets({"a": None, "b": [one, missing]})
        assert listed.value("a").valid() == {one: OffsetAndMetadata(4, "")}
        assert listed.value("b").value(one) == OffsetAndMetadata(4, "")
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=servers, group_id="members", client_id="one"
        ):
            found = await admin.describe_consumer_groups(["members", "a", "none"], typed=True)
            [member] = found.value("members").members
            assert (found.value("members").state, member.client_id) == ("Stable", "one")
            assert len(member.assignment) == 2
            assert found.value("a").state == "Empty"
            assert found.value("none").state == "Dead"
            responses = await admin.describe_consumer_groups(["members"])
            assert responses[0].groups[0].members[0].client_id == "one"
        if is_2_8:
            deleted = await admin.delete_consumer_group_offsets("a", [one])
            deleted.raise_for_errors()
            assert await admin.list_consumer_group_offsets("a") == {}
            (await admin.delete_consumer_groups(["b"])).raise_for_errors()
            removed = await admin.remove_members_from_consumer_group("a", ["x"], reason="why")
            assert removed.errors()
            assert (await admin.describe_producers([one])).value(one) == []
            none = await admin.describe_producers([missing], timeout_ms=1000)
            assert none.errors()
        else:
            for call in (
                admin.delete_consumer_groups(["b"]),
                admin.delete_consumer_group_offsets("a", [one]),
                admin.remove_members_from_consumer_group("a", ["x"]),
                admin.describe_producers([one]),
            ):
                with pytest.raises(UnsupportedVersionError, match="or newer"):
                    await call
        for call in (admin.list_transactions(), admin.describe_transactions(["t"])):
            with pytest.raises(UnsupportedVersionError, match=r"3\.0 or newer"):
                await call
        fenced = (await admin.fence_producers(["t"])).value("t")
        assert fenced.producer_epoch == 0
