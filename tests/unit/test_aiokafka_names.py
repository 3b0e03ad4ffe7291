"""The private names of aiokafka that libraries read (`aiokafka_lite.as_aiokafka.private_names`)."""

import json

from aiokafka_lite import AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer, partitioner
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
            assert reader._subscription.topics == {"orders"}
            assert reader._enable_auto_commit
            assert (alone._group_id, alone._coordinator.member_id) == (None, "")
            for client in (sender.client, reader._client):
                assert isinstance(client, AIOKafkaClient)
                assert json.loads(json.dumps(client._bootstrap_servers)) == address
            assert reader._client._client_id == "reader"


async def test_batch_builder_has_its_import_path() -> None:
    async with (
        FakeCluster() as cluster,
        AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        assert isinstance(producer.create_batch(), message_accumulator.BatchBuilder)
