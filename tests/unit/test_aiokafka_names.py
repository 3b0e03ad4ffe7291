"""The private names of aiokafka that libraries read (`aiokafka_lite.as_aiokafka.private_names`)."""

import json

import pytest

from aiokafka_lite import AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer, partitioner
from aiokafka_lite.errors import ProducerFenced, UnknownTopicOrPartitionError
from aiokafka_lite.producer import message_accumulator
from aiokafka_lite.producer.producer import _missing
from aiokafka_lite.testing import FakeCluster


async def test_names_that_instrumentations_and_frameworks_read() -> None:
    async with FakeCluster(topics={"orders": 2}) as cluster:
        address = cluster.bootstrap_servers
        async with (
            AIOKafkaProducer(
                bootstrap_servers=address, key_serializer=str.encode, acks=_missing
            ) as sender,
            AIOKafkaConsumer(
                "orders", bootstrap_servers=address, group_id="g", client_id="reader"
            ) as reader,
            AIOKafkaConsumer("orders", bootstrap_servers=address) as alone,
        ):
            assert sender._key_serializer is str.encode
            assert isinstance(sender._partitioner, partitioner.DefaultPartitioner)
            await sender.partitions_for("orders")
            assert sender._metadata.partitions_for_topic("orders") == {0, 1}
            assert sender._closed is False
            assert reader._group_id == "g"
            assert reader._coordinator.member_id
            assert await reader._client.ready(reader._coordinator.coordinator_id)
            assert reader._subscription.topics == {"orders"}
            assert reader._enable_auto_commit
            assert (alone._group_id, alone._coordinator.member_id) == (None, "")
            assert alone._coordinator.coordinator_id is None
            for client in (sender.client, reader._client):
                assert isinstance(client, AIOKafkaClient)
                assert json.loads(json.dumps(client._bootstrap_servers)) == address
            assert reader._client._client_id == "reader"


async def test_sender_task_is_done_once_the_producer_is_stopped() -> None:
    async with FakeCluster() as cluster:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
        assert producer._sender.sender_task is None
        await producer.start()
        task = producer._sender.sender_task
        assert not task.done()
        await producer.stop()
        assert task.done()
        assert not task.cancelled()
        assert task.exception() is None


async def test_sender_task_is_done_once_the_producer_is_fenced() -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        options = {"bootstrap_servers": cluster.bootstrap_servers, "transactional_id": "till"}
        async with AIOKafkaProducer(**options) as producer:
            task = producer._sender.sender_task
            assert not task.done()
            async with AIOKafkaProducer(**options):
                with pytest.raises(ProducerFenced):
                    async with producer.transaction():
                        await producer.send_and_wait("orders", b"tea")
            assert task.done()
            assert isinstance(task.exception(), ProducerFenced)


async def test_waiting_for_the_metadata_of_a_topic() -> None:
    async with FakeCluster(topics={"orders": 2}, auto_create_topics=False) as cluster:
        client = AIOKafkaClient(bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=300)
        async with client:
            assert await client._wait_on_metadata("orders") == {0, 1}
            with pytest.raises(UnknownTopicOrPartitionError, match="none"):
                await client._wait_on_metadata("none")


async def test_batch_builder_has_its_import_path() -> None:
    async with (
        FakeCluster() as cluster,
        AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        assert isinstance(producer.create_batch(), message_accumulator.BatchBuilder)
