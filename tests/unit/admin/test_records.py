"""Partitions, records and offsets; the lag of a group; sharing another client's connections."""

from typing import Any

import pytest

from aiokafka_lite import AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.admin import AIOKafkaAdminClient, NewPartitions, OffsetSpec, RecordsToDelete
from aiokafka_lite.errors import (
    GroupAuthorizationFailedError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidPartitionsError,
    KafkaTimeoutError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    ThrottlingQuotaExceededError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def records(brokers: FakeCluster) -> None:
    for number in range(10):
        brokers.produce("orders", b"value", partition=0, timestamp_ms=1000 + number)
    brokers.produce("orders", b"value", partition=1, timestamp_ms=5000)


async def test_partitions_are_added(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    result = await admin.create_partitions(
        {"payments": NewPartitions(3, [[0, 1, 2], [2, 0, 1]]), "orders": NewPartitions(8)}
    )
    assert result.topic_errors == [("payments", 0, None), ("orders", 0, None)]
    assert result.to_object()["throttle_time_ms"] == 0
    assert list(brokers.partition("payments", 1).replicas) == [0, 1, 2]
    await admin.wait_for_topics({"payments": 3, "orders": 8})


async def test_errors_of_added_partitions_are_raised_as_in_aiokafka(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    wanted = {"orders": NewPartitions(2), "payments": NewPartitions(2), "none": NewPartitions(2)}
    with pytest.raises(InvalidPartitionsError, match="topic 'orders'"):
        await admin.create_partitions(wanted, validate_only=True)
    result = await admin.create_partitions(wanted, raise_errors=False)
    assert set(result.valid()) == {"payments"}
    assert isinstance(result["none"], UnknownTopicOrPartitionError)
    assert [code for _, code, _ in result.topic_errors] == [
        InvalidPartitionsError.errno,
        0,
        UnknownTopicOrPartitionError.errno,
    ]
    assert brokers.count(ApiKey.CREATE_PARTITIONS) == 2


async def test_only_throttled_topics_get_their_partitions_later(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(
        ApiKey.CREATE_PARTITIONS, error=ThrottlingQuotaExceededError, partitions=[("orders", None)]
    )
    await admin.create_partitions({"orders": NewPartitions(7), "payments": NewPartitions(2)})
    asked = [
        [topic.name for topic in seen.body.topics]
        for seen in brokers.requests
        if seen.api_key == ApiKey.CREATE_PARTITIONS
    ]
    assert asked == [["orders", "payments"], ["orders"]]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (lambda: NewPartitions(0), IllegalArgumentError),
        (lambda: NewPartitions("3"), TypeError),
        (lambda: NewPartitions(2, [[0], [1]]), IllegalArgumentError),
        (lambda: RecordsToDelete(-2), IllegalArgumentError),
        (lambda: RecordsToDelete(None), TypeError),
    ],
)
def test_bad_arguments_are_refused(bad: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        bad()


@pytest.mark.usefixtures("records")
async def test_records_are_deleted_before_an_offset(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    deleted = await admin.delete_records({ONE: RecordsToDelete(4), TWO: RecordsToDelete(-1)})
    assert deleted == {ONE: 4, TWO: 1}
    found = await admin.list_offsets({ONE: OffsetSpec.EARLIEST, TWO: OffsetSpec.EARLIEST})
    assert {tp: info.offset for tp, info in found.valid().items()} == {ONE: 4, TWO: 1}
    with pytest.raises(OffsetOutOfRangeError, match="partition orders-0"):
        await admin.delete_records({ONE: RecordsToDelete(11), TWO: RecordsToDelete(1)})
    results = await admin.delete_records(
        {ONE: RecordsToDelete(11), TWO: RecordsToDelete(1)}, raise_errors=False
    )
    assert results.valid() == {TWO: 1}
    assert isinstance(results[ONE], OffsetOutOfRangeError)


@pytest.mark.usefixtures("records")
async def test_a_leader_that_moved_is_looked_up_again(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    fault = brokers.control(
        ApiKey.DELETE_RECORDS, error=NotLeaderForPartitionError, partitions=[ONE]
    )
    assert await admin.delete_records({ONE: RecordsToDelete(1)}) == {ONE: 1}
    assert fault.hits == 1
    assert brokers.count(ApiKey.DELETE_RECORDS) == 2


async def test_records_of_a_topic_that_never_appears(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    with pytest.raises(KafkaTimeoutError, match="partition none-0"):
        await admin.delete_records({TopicPartition("none", 0): RecordsToDelete(1)}, timeout_ms=200)


@pytest.mark.usefixtures("records")
async def test_offsets_by_spec_and_by_timestamp(admin: AIOKafkaAdminClient) -> None:
    async def look_up(spec: OffsetSpec | int) -> Any:
        return (await admin.list_offsets({ONE: spec})).value(ONE)

    assert (await look_up(OffsetSpec.EARLIEST)).offset == 0
    latest = await look_up(OffsetSpec.LATEST)
    assert (latest.offset, latest.timestamp) == (10, None)
    at = await look_up(1004)
    assert (at.offset, at.timestamp) == (4, 1004)
    assert (await look_up(9999)).offset is None
    newest = await look_up(OffsetSpec.MAX_TIMESTAMP)
    assert (newest.offset, newest.timestamp) == (9, 1009)
    assert (await look_up(OffsetSpec.EARLIEST_LOCAL)).offset == 0


async def test_bad_specs_send_nothing(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    before = len(brokers.requests)
    for bad, error in [
        ({ONE: -1}, IllegalArgumentError),
        ({ONE: "latest"}, TypeError),
        ({"orders": OffsetSpec.LATEST}, TypeError),
        ([ONE], TypeError),
    ]:
        with pytest.raises(error):
            await admin.list_offsets(bad)  # type: ignore[arg-type]
    with pytest.raises(IllegalArgumentError, match="isolation_level"):
        await admin.list_offsets({ONE: OffsetSpec.LATEST}, isolation_level="committed")
    with pytest.raises(TypeError, match="RecordsToDelete"):
        await admin.delete_records({ONE: 4})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="NewPartitions"):
        await admin.create_partitions({"orders": 4})  # type: ignore[dict-item]
    assert len(brokers.requests) == before


async def test_a_spec_that_brokers_do_not_know_concerns_its_partitions() -> None:
    async with (
        FakeCluster(1, {"orders": 2}, version="2.8") as brokers,
        AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers) as admin,
    ):
        results = await admin.list_offsets({ONE: OffsetSpec.MAX_TIMESTAMP, TWO: OffsetSpec.LATEST})
        assert results.value(TWO).offset == 0
        with pytest.raises(
            UnsupportedVersionError, match=r"OffsetSpec\.MAX_TIMESTAMP requires Kafka 3\.0"
        ):
            results.value(ONE)
        with pytest.raises(UnsupportedVersionError):
            await admin.list_offsets({ONE: OffsetSpec.MAX_TIMESTAMP})


@pytest.mark.usefixtures("records")
async def test_read_committed_stops_at_an_open_transaction(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=brokers.bootstrap_servers, transactional_id="tx"
    ) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"open", partition=0)
        latest = {ONE: OffsetSpec.LATEST}
        committed = await admin.list_offsets(latest, isolation_level="read_committed")
        assert committed.value(ONE).offset == 10
        assert (await admin.list_offsets(latest)).value(ONE).offset == 11
        await producer.abort_transaction()


@pytest.mark.usefixtures("records")
async def test_the_lag_of_a_group(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    async with AIOKafkaConsumer(
        bootstrap_servers=brokers.bootstrap_servers, group_id="g"
    ) as consumer:
        consumer.assign([ONE, TWO])
        await consumer.commit({ONE: 3})
        lags = (await admin.lag("g")).raise_for_errors()
        assert {tp: each.lag for tp, each in lags.items()} == {ONE: 7}
        both = (await admin.lag("g", [ONE, TWO])).raise_for_errors()
        assert (both[TWO].committed, both[TWO].lag) == (None, 1)
        await admin.delete_records({ONE: RecordsToDelete(8)})
        assert (await admin.lag("g")).value(ONE).lag == 2  # deleted records no longer count as lag
    assert dict(await admin.lag("no such group")) == {}
    brokers.control(ApiKey.OFFSET_FETCH, error=GroupAuthorizationFailedError, times=None)
    with pytest.raises(GroupAuthorizationFailedError):
        await admin.lag("g")


async def test_an_admin_client_of_a_producer_and_of_a_consumer(brokers: FakeCluster) -> None:
    servers = brokers.bootstrap_servers
    async with (
        AIOKafkaProducer(bootstrap_servers=servers) as producer,
        AIOKafkaConsumer(bootstrap_servers=servers) as consumer,
        AIOKafkaClient(bootstrap_servers=servers) as client,
    ):
        for each in (producer.client, consumer.client, client):
            async with AIOKafkaAdminClient.of(each) as admin:
                assert set(await admin.list_topics()) == {"orders", "payments"}
                await admin.close()
            assert each.get_random_node() is not None
            assert set(await admin.list_topics()) == {"orders", "payments"}
        await producer.send_and_wait("orders", b"still open")
        with pytest.raises(TypeError, match="pass its `client`"):
            AIOKafkaAdminClient.of(producer)  # type: ignore[arg-type]
    with pytest.raises(IllegalStateError):
        await admin.list_topics()


async def test_an_admin_client_of_a_client_that_is_not_started(brokers: FakeCluster) -> None:
    client = AIOKafkaClient(bootstrap_servers=brokers.bootstrap_servers)
    admin = AIOKafkaAdminClient.of(client)
    with pytest.raises(IllegalStateError, match=r"start .* first"):
        await admin.start()
    async with client:
        await admin.start()
        assert await admin.list_topics()
