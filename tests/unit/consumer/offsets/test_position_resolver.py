"""Looking up offsets: grouping, versions, errors and timeouts, against embedded brokers."""

import asyncio
import logging
import re
from collections.abc import Mapping

import pytest

from aiokafka_lite.cluster import outage
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.consumer_options import IsolationLevel
from aiokafka_lite.consumer.offsets.offset_lookup import EARLIEST, LATEST, Found, list_offsets
from aiokafka_lite.errors import (
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.makers import append, numbered, until

pytestmark = pytest.mark.unhurried

Answers = dict[TopicPartition, Found | KafkaError]


async def ask(
    fake: FakeCluster,
    times: Mapping[TopicPartition, int],
    *,
    seconds: float = 5,
    search: bool = False,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> Answers:
    told: Answers = {}

    def on_found(tp: TopicPartition, found: Found | KafkaError) -> None:
        assert tp not in told
        told[tp] = found

    cluster = Cluster(fake.bootstrap_servers, ConnectionOptions(), retry_backoff=0.01)
    await cluster.start()
    loop = asyncio.get_running_loop()
    try:
        await list_offsets(
            cluster,
            times,
            loop.time() + seconds,
            isolation=isolation,
            on_found=on_found,
            search=search,
        )
    finally:
        await cluster.close(loop.time() + 1)
    assert set(told) == set(times)
    return told


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("orders", i) for i in range(count)]


@pytest.mark.parametrize("version", range(ListOffsetsRequest.max_version + 1))
@pytest.mark.parametrize("isolation", list(IsolationLevel))
async def test_every_version(version: int, isolation: IsolationLevel) -> None:
    ranges = {ApiKey.LIST_OFFSETS: (version, version)}
    async with FakeCluster(topics={"orders": 2}, api_versions=ranges) as fake:
        p0, p1 = partitions(2)
        append(fake, numbered(9))
        fake.delete_records("orders", 0, 3)
        ends = await ask(fake, {p0: LATEST, p1: LATEST}, isolation=isolation)
        assert {tp: found.offset for tp, found in ends.items()} == {p0: 9, p1: 0}  # type: ignore[union-attr]  # no errors here
        starts = await ask(fake, {p0: EARLIEST, p1: EARLIEST}, isolation=isolation)
        assert {tp: found.offset for tp, found in starts.items()} == {p0: 3, p1: 0}  # type: ignore[union-attr]  # no errors here


async def test_one_request_a_leader() -> None:
    async with FakeCluster(brokers=3, topics={"orders": 12}) as fake:
        tps = partitions(12)
        for tp in tps[1:]:
            append(fake, numbered(tp.partition), tp.partition)
        told = await ask(fake, dict.fromkeys(tps, LATEST))  # of a topic without metadata yet
        assert told == {tp: Found(tp.partition, -1, 0, 0) for tp in tps}
        assert fake.count(ApiKey.LIST_OFFSETS) == 3
    async with FakeCluster(brokers=3, topics={"orders": 12}) as fake:
        cluster = Cluster(fake.bootstrap_servers, ConnectionOptions())
        await cluster.start()
        loop = asyncio.get_running_loop()
        await cluster.partitions_of("orders", loop.time() + 5)
        await list_offsets(
            cluster,
            dict.fromkeys(tps, LATEST),
            loop.time() + 5,
            isolation=IsolationLevel.READ_UNCOMMITTED,
            on_found=lambda tp, found: None,
        )
        assert fake.count(ApiKey.LIST_OFFSETS) == 3
        await cluster.close(loop.time() + 1)


async def test_topics_that_become_known_together_are_looked_up_in_one_request() -> None:
    names = [f"orders{number}" for number in range(9)]
    async with FakeCluster(brokers=3, topics=dict.fromkeys(names, 6)) as fake:
        tps = [TopicPartition(name, partition) for name in names for partition in range(6)]
        await ask(fake, dict.fromkeys(tps, LATEST))
        assert fake.count(ApiKey.LIST_OFFSETS) == 3


@pytest.mark.parametrize("code", [3, 5, 6, 56, 74, 75, 78])
async def test_a_passing_error_of_one_partition(code: int) -> None:
    async with FakeCluster(brokers=2, topics={"orders": 4}) as fake:
        tps = partitions(4)
        fault = fake.control(ApiKey.LIST_OFFSETS, error=code, partitions=[("orders", 2)], times=3)
        told = await ask(fake, dict.fromkeys(tps, LATEST))
        assert told == {tp: Found(0, -1, 0, 0) for tp in tps}
        assert fault.hits == 3


async def test_a_lasting_error_affects_only_its_partition() -> None:
    async with FakeCluster(topics={"orders": 3}) as fake:
        fake.control(
            ApiKey.LIST_OFFSETS, error=29, partitions=[("orders", 0), ("orders", 2)], times=None
        )
        p0, p1, p2 = partitions(3)
        told = await ask(fake, dict.fromkeys((p0, p1, p2), LATEST))
        assert told[p1] == Found(0, -1, 0, 0)
        assert isinstance(told[p0], TopicAuthorizationFailedError)
        assert isinstance(told[p2], TopicAuthorizationFailedError)


async def test_an_unreachable_partition_does_not_delay_others() -> None:
    async with FakeCluster(topics={"orders": 1}) as fake:
        (p0,) = partitions(1)
        missing = TopicPartition("orders", 7)
        told = await ask(fake, {missing: LATEST, p0: LATEST}, seconds=0.3)
        assert told[p0] == Found(0, -1, 0, 0)
        error = told[missing]
        assert isinstance(error, KafkaTimeoutError)
        assert "orders-7" in str(error)


async def test_a_retried_partition_does_not_wait_for_a_hopeless_one() -> None:
    async with FakeCluster(topics={"orders": 3}) as fake:
        p0, p1, p2 = partitions(3)
        hopeless = TopicPartition("orders", 7)
        fake.control(ApiKey.LIST_OFFSETS, error=5, partitions=[("orders", 1)], times=2)
        cluster = Cluster(fake.bootstrap_servers, ConnectionOptions(), retry_backoff=0.01)
        await cluster.start()
        loop = asyncio.get_running_loop()
        await cluster.partitions_of("orders", loop.time() + 5)
        told: Answers = {}
        asking = asyncio.ensure_future(
            list_offsets(
                cluster,
                dict.fromkeys((p0, p1, p2, hopeless), LATEST),
                loop.time() + 60,
                isolation=IsolationLevel.READ_UNCOMMITTED,
                on_found=told.__setitem__,
            )
        )
        await until(lambda: set(told) == {p0, p1, p2})
        assert not asking.done()
        asking.cancel()
        await asyncio.wait([asking])
        await cluster.close(loop.time() + 1)


async def test_a_partition_missing_from_responses_is_not_requested_forever() -> None:
    async with FakeCluster(topics={"orders": 2}) as fake:

        def leave_out(response: ListOffsetsResponse) -> None:
            for topic in response.topics:
                topic.partitions = [p for p in topic.partitions if p.partition_index != 0]

        fake.control(ApiKey.LIST_OFFSETS, after_handling=True, edit=leave_out, times=None)
        told = await ask(fake, dict.fromkeys(partitions(2), LATEST), seconds=1)
        assert isinstance(told[partitions(2)[0]], KafkaProtocolError)
        assert told[partitions(2)[1]] == Found(0, -1, 0, 0)
        assert fake.count(ApiKey.LIST_OFFSETS) <= 2


async def test_searching_needs_a_broker_that_can() -> None:
    ranges = {ApiKey.LIST_OFFSETS: (0, 0)}
    async with FakeCluster(topics={"orders": 1}, api_versions=ranges) as fake:
        (p0,) = partitions(1)
        told = await ask(fake, {p0: 5}, search=True)
        assert isinstance(told[p0], UnsupportedVersionError)


@pytest.mark.parametrize("offset", [-2, -5, -(2**63)])
async def test_an_impossible_offset_is_refused(offset: int) -> None:
    def edit(response: ListOffsetsResponse) -> None:
        response.topics[0].partitions[0].offset = offset

    async with FakeCluster(topics={"orders": 1}) as fake:
        fake.control(ApiKey.LIST_OFFSETS, times=None, after_handling=True, edit=edit)
        tp = TopicPartition("orders", 0)
        told = (await ask(fake, {tp: LATEST}))[tp]
    assert isinstance(told, KafkaProtocolError)
    assert f"invalid offset {offset}" in str(told)


@pytest.mark.parametrize("group", [None, "g"])
async def test_repeated_timeouts_are_logged_once_a_minute(
    group: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Timeouts of ListOffsets and of the lookup of committed offsets."""
    async with FakeCluster(topics={"orders": 3}) as fake:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=fake.bootstrap_servers,
            client_id="c",
            group_id=group,
            auto_offset_reset="earliest",
            request_timeout_ms=500,
            retry_backoff_ms=10,
        )
        async with consumer:
            if group is None:
                key, error, text = ApiKey.LIST_OFFSETS, 5, "no offset of "
            else:
                key, error, text = ApiKey.OFFSET_FETCH, 14, "Fetching committed offsets failed"
            caplog.set_level(logging.INFO, "aiokafka_lite.consumer.offsets")
            fake.control(key, error=error, times=None)
            consumer.assign(partitions(3))
            kinds = consumer._core.resolver._failures._kinds

            def unreported() -> int:
                return max((each._unreported for each in kinds.values()), default=0)

            def lines() -> list[logging.LogRecord]:
                return [each for each in caplog.records if text in each.message]

            async with asyncio.timeout(60):
                while unreported() < 3:
                    await asyncio.sleep(0.01)
            (line,) = lines()
            assert line.message.startswith("c: " if group is None else "c (group g): ")
            assert line.message.endswith("; retrying")
            assert line.kafka_client_id == "c"  # type: ignore[attr-defined]  # by `extra`
            if group is None:
                assert "and no offset of 2 other partitions" in line.message
                assert line.kafka_topic == "orders"  # type: ignore[attr-defined]  # by `extra`
            assert "since the last report" not in line.message
            with monkeypatch.context() as patched:
                patched.setattr(outage, "REMIND_EVERY", 0.0)
                async with asyncio.timeout(60):
                    while len(lines()) < 2:
                        await asyncio.sleep(0.01)
            assert re.search(r"\(\d+ times since the last report\)", lines()[1].message)
