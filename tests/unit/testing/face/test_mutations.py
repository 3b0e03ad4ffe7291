"""Each mutating method has its documented effect, as raw clients or the state show."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.errors import (
    GroupAuthorizationFailedError,
    NotEnoughReplicasError,
    OutOfOrderSequenceNumber,
    TopicAuthorizationFailedError,
)
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster, VirtualClock
from aiokafka_lite.testing.security.acl_table import AclFilter, Operation, Resource
from aiokafka_lite.testing.security.authorizer import Authorizer
from tests.unit.testing.raw import NOW_MS, RawClient, make_batch

Connect = Callable[[str], Any]

ASK_NOTHING = MetadataRequest(topics=[])


def commit(topic: str, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    return OffsetCommitRequest(group_id="mine", topics=topics)


async def test_a_paused_broker_is_silent_until_resumed(
    cluster: FakeCluster, connect: Connect
) -> None:
    client = await connect(cluster.address(0))
    await client.ask(ASK_NOTHING, 9)
    cluster.pause(0)
    cluster.pause(0)
    client.send(ASK_NOTHING, 9)
    late = await connect(cluster.address(0))  # the kernel accepts it
    late.send(ASK_NOTHING, 9)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await client.frame()
    assert cluster.count(ApiKey.METADATA) == 1
    cluster.resume(0)
    cluster.resume(0)
    await client.receive(ASK_NOTHING, 9)
    await late.receive(ASK_NOTHING, 9)


async def test_a_throttle(cluster: FakeCluster, connect: Connect) -> None:
    client = await connect(cluster.address(0))
    cluster.throttle(0.01, api_key=ApiKey.METADATA, client_id="raw")
    assert (await client.ask(ASK_NOTHING, 9)).throttle_time_ms == 10
    cluster.throttle(0, api_key=ApiKey.METADATA, client_id="raw")
    assert (await client.ask(ASK_NOTHING, 9)).throttle_time_ms == 0
    with pytest.raises(ValueError):
        cluster.throttle(-1)


async def test_truncate_removes_the_end_of_a_log() -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        for number in range(4):
            cluster.produce("orders", b"%d" % number)
        epoch = cluster.partition("orders", 0).leader_epoch
        assert cluster.truncate("orders", 0, 2) == 2
        assert [record.value for record in cluster.records("orders")] == [b"0", b"1"]
        assert cluster.partition("orders", 0).leader_epoch == epoch + 1
        assert cluster.produce("orders", b"other") == 2


async def test_replicas_fall_behind_and_catch_up() -> None:
    async with FakeCluster(brokers=3) as cluster:
        cluster.create_topic("orders", configs={"min.insync.replicas": "2"})
        cluster.shrink_isr("orders", 0, [1, 2])
        assert cluster.partition("orders", 0).isr == [0]
        with pytest.raises(NotEnoughReplicasError):
            cluster.produce("orders", b"x")
        cluster.expand_isr("orders", 0, [2])
        assert cluster.partition("orders", 0).isr == [0, 2]
        assert cluster.produce("orders", b"x") == 0
        for wrong in ([0], [3]):
            with pytest.raises(ValueError):
                cluster.shrink_isr("orders", 0, wrong)


async def test_a_producer_id_is_forgotten() -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        partition = cluster.partition("orders", 0)

        def append(sequence: int) -> int:
            batch = memoryview(make_batch(producer_id=5, producer_epoch=0, base_sequence=sequence))
            return partition.append(batch, BatchHeader.read(batch), -1, NOW_MS).base_offset

        assert append(0) == 0
        with pytest.raises(OutOfOrderSequenceNumber):
            append(7)
        cluster.expire_producer_id(5)
        assert append(7) == 1


async def test_offsets_are_seen_and_expire(connect: Connect) -> None:
    clock = VirtualClock()
    configs = {"offsets.retention.minutes": 10}
    async with FakeCluster(topics=["orders"], clock=clock, broker_configs=configs) as cluster:
        client = await connect(cluster.address(0))
        await client.ask(commit("orders", 7), 8)
        assert cluster.committed("mine") == {TopicPartition("orders", 0): 7}
        assert cluster.committed("other") == {}
        cluster.expire_offsets()
        assert cluster.committed("mine") == {TopicPartition("orders", 0): 7}
        cluster.advance(601)
        cluster.expire_offsets()
        assert cluster.committed("mine") == {}


async def test_retention_is_applied_when_it_is_called() -> None:
    clock = VirtualClock()
    async with FakeCluster(clock=clock) as cluster:
        cluster.create_topic("orders", configs={"retention.ms": "60000"})
        cluster.produce("orders", b"old")
        cluster.advance(61)
        cluster.produce("orders", b"new")
        assert len(cluster.records("orders")) == 2
        cluster.apply_retention()
        assert [record.offset for record in cluster.records("orders")] == [1]


async def test_compaction_keeps_the_newest_record_of_each_key(tmp_path: Any) -> None:
    left = [(1, b"b", b"1"), (2, b"a", b"2")]

    def found(cluster: FakeCluster) -> list[tuple[int, bytes, bytes]]:
        return [(one.offset, one.key, one.value) for one in cluster.records("orders")]

    async with FakeCluster(data_dir=tmp_path, topics=["plain"]) as cluster:
        cluster.create_topic("orders", configs={"cleanup.policy": "compact"})
        for number, key in enumerate((b"a", b"b", b"a")):
            cluster.produce("orders", b"%d" % number, key)
        cluster.compact("orders")
        assert found(cluster) == left
        with pytest.raises(ValueError, match="'plain' cannot be compacted"):
            cluster.compact("plain")
        with pytest.raises(ValueError, match="topic 'other' does not exist"):
            cluster.compact("other")
    async with FakeCluster(data_dir=tmp_path) as cluster:
        assert found(cluster) == left
        assert cluster.produce("orders", b"3", b"a") == 3


async def test_users_have_to_authenticate(connect: Connect) -> None:
    async with FakeCluster(users={"alice": "secret"}) as cluster:
        client = await connect(cluster.address(0))
        client.send(ASK_NOTHING, 9)
        assert await client.is_cut()
        assert cluster.state.users.password_of("alice") == "secret"
    with pytest.raises(ValueError, match="SASL options require users"):
        FakeCluster(sasl_mechanisms=["PLAIN"])
    with pytest.raises(ValueError, match="sasl_mechanisms"):
        FakeCluster(users={}, sasl_mechanisms=["MAGIC"])


async def test_acls(connect: Connect) -> None:
    async with FakeCluster(topics=["orders"], super_users=["User:admin"]) as cluster:
        client = await connect(cluster.address(0))

        async def error_of_a_commit() -> int:
            told = await client.ask(commit("orders", 7), 8)
            code: int = told.topics[0].partitions[0].error_code
            return code

        assert await error_of_a_commit() == GroupAuthorizationFailedError.errno
        cluster.acls.allow("User:ANONYMOUS", Operation.READ, Resource.GROUP, "mine")
        assert await error_of_a_commit() == TopicAuthorizationFailedError.errno
        cluster.acls.allow("User:ANONYMOUS", Operation.READ, Resource.TOPIC, "orders")
        assert await error_of_a_commit() == 0
    with pytest.raises(RuntimeError, match="super_users"):
        assert FakeCluster().acls
    with pytest.raises(ValueError, match="pass super_users to the authorizer"):
        FakeCluster(super_users=[], authorizer=Authorizer())
    assert FakeCluster(authorizer=(mine := Authorizer())).acls is mine.acls
    assert FakeCluster(authorizer=True).acls.find(AclFilter()) == []
    assert FakeCluster(authorizer=False).state.authorizer is None
    assert FakeCluster(authorizer=False, super_users=["User:a"]).state.authorizer is not None
    with pytest.raises(TypeError, match="authorizer='on'"):
        FakeCluster(authorizer="on")  # type: ignore[arg-type]  # what is tested


async def test_acls_and_users_are_kept(tmp_path: Any) -> None:
    async with FakeCluster(data_dir=tmp_path, users={"bob": "x"}, super_users=[]) as cluster:
        acl = cluster.acls.allow("User:bob", Operation.READ, Resource.TOPIC, "orders")
    async with FakeCluster(data_dir=tmp_path, users={}, super_users=[]) as cluster:
        assert list(cluster.acls.covering(Resource.TOPIC, "orders")) == [acl]
        assert cluster.state.users.password_of("bob") == "x"


async def test_a_start_on_a_port_that_is_taken() -> None:
    async with FakeCluster() as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        other = FakeCluster(host=host, port=int(port))
        with pytest.raises(OSError, match=f"broker 0 cannot listen on {host}:{port}"):
            await other.start()
    for port in (-1, 65536):
        with pytest.raises(ValueError, match=f"port={port}"):
            FakeCluster(port=port)


async def test_brokers_advertise_another_host() -> None:
    async with FakeCluster(advertise="localhost", host="127.0.0.1") as cluster:
        assert cluster.bootstrap_servers.startswith("localhost:")
        client = await RawClient.connect(f"127.0.0.1:{cluster.state.nodes[0].port}")
        told = await client.ask(MetadataRequest(topics=None), 9)
        assert told.brokers[0].host == "localhost"
        await client.close()
