"""Prefetching from embedded brokers: what is requested from which broker and when, and errors."""

import asyncio
import random
import threading
from importlib import import_module
from typing import Any

import pytest

from aiokafka_lite import errors
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.consumer.buffering import thread_decoding
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.fetching import broker_fetch
from aiokafka_lite.consumer.fetching import partition_response as answers
from aiokafka_lite.consumer.fetching.fetcher import Fetcher
from aiokafka_lite.consumer.partitions.fetch_source import NOWHERE
from aiokafka_lite.consumer.partitions.positions import PartitionState
from aiokafka_lite.errors import for_code
from aiokafka_lite.protocol.messages.fetch import FetchRequest, FetchResponse
from aiokafka_lite.protocol.messages.metadata import MetadataResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.reading import heavy_batches
from aiokafka_lite.reading.heavy_batches import is_heavy
from aiokafka_lite.record.compression import Bytes, Compression, decompress
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.consumer.makers import append, batch, numbered, until

P0, P1, P2 = (TopicPartition("orders", i) for i in range(3))


def fetches(cluster: FakeCluster) -> list[tuple[set[int], FetchRequest]]:
    """The fetches so far: the partitions requested, in the session or new, and the request."""
    found = []
    asked: set[int] = set()
    for seen in cluster.requests:
        if isinstance(seen.body, FetchRequest):
            named = {p.partition for topic in seen.body.topics for p in topic.partitions}
            lost = {p for topic in seen.body.forgotten_topics_data for p in topic.partitions}
            asked = named if seen.body.session_epoch <= 0 else (asked | named) - lost
            found.append((asked, seen.body))
    return found


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    async with asyncio.timeout(10):
        return [await consumer.getone() for _ in range(count)]


# --- what is requested


async def test_buffered_partitions_are_left_out_of_fetches(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(300), 0)
    async with make("orders", consumer_timeout_ms=20) as consumer:
        await take(consumer, 1)  # of a chunk of 256: the set is not decoded to its end
        before = len(fetches(cluster))
        await until(lambda: len(fetches(cluster)) >= before + 2)
        for partitions, request in fetches(cluster)[before:]:
            assert partitions == {1, 2}
            assert request.max_wait_ms == 0
        append(cluster, numbered(3), 1)
        record = await asyncio.wait_for(consumer.getone(P1), 5)
        assert record.offset == 0
        # Once it is decoded, the next fetch requests the partition again, and may wait at the
        # broker.
        before = len(fetches(cluster))
        await take(consumer, 301)
        await until(lambda: fetches(cluster)[-1][0] == {0, 1, 2})
        assert fetches(cluster)[-1][1].max_wait_ms == 50


async def test_an_idle_application_sends_only_long_polls(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    async with make("orders", fetch_max_wait_ms=10_000):
        await until(lambda: len(fetches(cluster)) == 1)
        await asyncio.sleep(0.05)
        assert len(fetches(cluster)) == 1


async def test_fetches_return_soon_while_a_partition_has_no_position(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    fault = cluster.control(ApiKey.LIST_OFFSETS, partitions=[P1], error=6, times=None)
    consumer = make("orders", fetch_max_wait_ms=10_000)
    starting = asyncio.create_task(consumer.start())  # waits for the position
    await until(lambda: len(fetches(cluster)) >= 3)
    fault.remove()
    await starting
    await until(lambda: fetches(cluster)[-1][0] == {0, 1, 2})
    *early, (_, last) = fetches(cluster)
    assert all(partitions == {0, 2} for partitions, _ in early)
    waits = [request.max_wait_ms for _, request in early]
    assert waits == [10 * 2**n for n in range(len(waits))]
    assert last.max_wait_ms == 10_000


async def test_many_seeks_make_one_fetch(cluster: FakeCluster, make: MakeConsumer) -> None:
    for partition in range(3):
        append(cluster, numbered(3), partition)
    async with make("orders", fetch_max_wait_ms=10_000) as consumer:
        await take(consumer, 9)
        append(cluster, [b"x"], 0)  # ends the long poll
        await take(consumer, 1)
        await until(lambda: fetches(cluster)[-1][0] == {0, 1, 2})
        append(cluster, [b"x"], 0)
        before = len(fetches(cluster))
        for partition in range(3):
            consumer.seek(TopicPartition("orders", partition), 1)
        await take(consumer, 8)
        asked = [partitions for partitions, _ in fetches(cluster)[before:]]
        assert asked[0] == {0, 1, 2}


async def test_one_fetch_in_flight(cluster: FakeCluster, make: MakeConsumer) -> None:
    fault = cluster.control(ApiKey.FETCH, delay=0.2)
    async with make("orders") as consumer:
        await asyncio.wait_for(fault.struck(), 5)
        for _ in range(3):
            append(cluster, numbered(3), 0)
            consumer.seek(P0, 0)
            await asyncio.sleep(0.01)
        assert cluster.count(ApiKey.FETCH) == 1
        await take(consumer, 3)


async def test_the_next_fetch_leaves_before_the_last_records_are_seen(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(10), 0)
    async with make(fetch_max_wait_ms=10_000) as consumer:
        consumer.assign([P0])
        await take(consumer, 1)
        # Nine records are still to be handed out, and the application is not reading.
        await until(lambda: len(fetches(cluster)) == 2)
        (partition,) = fetches(cluster)[1][1].topics[0].partitions
        assert partition.fetch_offset == 10
        assert await consumer.position(P0) == 1


async def test_the_buffered_bytes_stay_within_the_memory(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    for partition in range(3):
        for _ in range(40):
            append(cluster, [bytes(1000)] * 10, partition)
    largest = 0
    async with make("orders", buffer_memory=150_000, max_partition_fetch_bytes=30_000) as consumer:
        for _ in range(3 * 400):
            await take(consumer, 1)
            await asyncio.sleep(0)
            largest = max(largest, consumer._core.buffer.bytes)
    assert 30_000 <= largest <= 150_000
    assert all(request.max_bytes <= 75_000 for _, request in fetches(cluster))


async def test_no_partition_starves(cluster: FakeCluster, make: MakeConsumer) -> None:
    for partition in range(3):
        for _ in range(30):
            append(cluster, [bytes(1000)] * 10, partition)
    seen = []
    # A response has room for one partition only.
    async with make("orders", fetch_max_bytes=20_000, max_partition_fetch_bytes=20_000) as consumer:
        for record in await take(consumer, 300):
            seen.append(record.partition)
    assert all(seen.count(partition) >= 60 for partition in range(3))


# --- every version


@pytest.mark.parametrize("release", ["0.8.2", "0.10.0", "0.10.2", "0.11.0", "1.1", "2.4", "2.8"])
async def test_old_brokers(release: str) -> None:
    async with FakeCluster(topics={"orders": 3}, version=release) as cluster:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
        )
        async with consumer:
            append(cluster, numbered(3), 1)
            assert [r.value for r in await take(consumer, 3)] == numbered(3)
            assert await consumer.end_offsets([P1]) == {P1: 3}
            assert consumer.highwater(P1) == 3


@pytest.mark.parametrize("version", range(FetchRequest.max_version + 1))
async def test_every_version_of_fetch(version: int) -> None:
    ranges = {ApiKey.FETCH: (version, version)}
    async with FakeCluster(topics={"orders": 3}, api_versions=ranges) as cluster:
        try:
            consumer = AIOKafkaConsumer(
                "orders",
                bootstrap_servers=cluster.bootstrap_servers,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=50,
            )
            async with consumer:
                append(cluster, numbered(3), 2)
                assert [r.value for r in await take(consumer, 3)] == numbered(3)
        finally:
            assert {seen.version for seen in cluster.requests if seen.api_key == ApiKey.FETCH} == {
                version
            }


# --- errors


RETRIED = [3, 5, 6, 7, 9, 56, 74, 78, 100, 103]
TOLD = [2, 17, 29, 42, 76, 87]


@pytest.mark.parametrize("code", RETRIED)
async def test_a_passing_error_is_retried_with_new_metadata(
    cluster: FakeCluster, make: MakeConsumer, code: int
) -> None:
    append(cluster, numbered(3))
    fault = cluster.control(ApiKey.FETCH, error=code, times=2)
    async with make("orders") as consumer:
        before = cluster.count(ApiKey.METADATA)
        assert [r.value for r in await take(consumer, 3)] == numbered(3)
        assert fault.hits == 2
        await until(lambda: cluster.count(ApiKey.METADATA) > before)


@pytest.mark.parametrize("code", TOLD)
async def test_a_lasting_error_is_raised_and_reading_continues(
    cluster: FakeCluster, make: MakeConsumer, code: int
) -> None:
    append(cluster, numbered(3))
    cluster.control(ApiKey.FETCH, error=code, partitions=[("orders", 0)])
    async with make() as consumer:
        consumer.assign([P0])
        with pytest.raises(for_code(code)):
            await take(consumer, 1)
        assert [r.value for r in await take(consumer, 3)] == numbered(3)


async def test_an_error_of_the_whole_request(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(3))
    cluster.control(ApiKey.FETCH, respond_with=FetchResponse(error_code=70))
    async with make("orders") as consumer:
        assert [r.value for r in await take(consumer, 3)] == numbered(3)


async def test_a_lost_connection(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(3))
    cluster.control(ApiKey.FETCH, disconnect=True, times=3)
    async with make("orders") as consumer:
        assert [r.value for r in await take(consumer, 3)] == numbered(3)
        cluster.disconnect()
        append(cluster, numbered(3, 3))
        assert [r.value for r in await take(consumer, 3)] == numbered(3, 3)


async def test_an_answer_that_cannot_be_read(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(3))
    cluster.control(ApiKey.FETCH, after_handling=True, tamper=lambda data: data[:-3])
    async with make("orders") as consumer:
        async with asyncio.timeout(10):
            assert (await consumer.getone()).value == b"v0"


async def test_a_corrupt_batch_raises_its_offset_and_can_be_skipped(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(2))
    append(cluster, numbered(2, 2))

    def spoil(response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                if data.records is not None and bytes(data.records).endswith(b"v3\0"):
                    spoiled = bytearray(data.records)
                    spoiled[-1] ^= 0xFF
                    data.records = spoiled

    fault = cluster.control(ApiKey.FETCH, after_handling=True, edit=spoil, times=None)
    async with make() as consumer:
        consumer.assign([P0])
        assert [r.value for r in await take(consumer, 2)] == numbered(2)
        for _ in range(2):
            with pytest.raises(errors.CorruptRecordException, match="'orders', partition 0, offs"):
                await take(consumer, 1)
        assert await consumer.position(P0) == 2
        fault.remove()
        assert [r.value for r in await take(consumer, 2)] == numbered(2, 2)
        consumer.seek(P0, 3)
        assert [r.value for r in await take(consumer, 1)] == numbered(1, 3)


async def test_without_crc_check(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(1))

    def spoil(response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                if data.records:
                    spoiled = bytearray(data.records)
                    spoiled[17] ^= 0xFF  # the CRC itself
                    data.records = spoiled

    cluster.control(ApiKey.FETCH, after_handling=True, edit=spoil, times=None)
    async with make("orders", check_crcs=False) as consumer:
        assert [r.value for r in await take(consumer, 1)] == numbered(1)


async def test_read_committed_hides_aborted_records(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    async with make("orders", isolation_level="read_committed") as consumer:
        append(cluster, numbered(2))
        await take(consumer, 2)
        assert all(request.isolation_level == 1 for _, request in fetches(cluster))
        assert consumer.last_stable_offset(P0) == 2


async def test_a_throttled_client_waits(cluster: FakeCluster, make: MakeConsumer) -> None:
    def throttle(response: FetchResponse) -> None:
        response.throttle_time_ms = 100

    fault = cluster.control(ApiKey.FETCH, after_handling=True, edit=throttle)
    async with make("orders", fetch_max_wait_ms=1):
        await until(lambda: fault.hits == 1)
        await until(lambda: cluster.count(ApiKey.FETCH) >= 2)
        first, second, *_ = (s.at for s in cluster.requests if s.api_key == ApiKey.FETCH)
        assert second - first >= 0.1


# --- leaders


async def test_a_moved_leader_is_followed() -> None:
    async with FakeCluster(brokers=2, topics={"orders": 2}) as cluster:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            retry_backoff_ms=10,
        )
        async with consumer:
            for round_ in range(4):
                for partition in range(2):
                    append(cluster, numbered(5, 5 * round_), partition)
                taken = await take(consumer, 10)
                for partition in range(2):
                    mine = [r.value for r in taken if r.partition == partition]
                    assert mine == numbered(5, 5 * round_)
                    cluster.move_leader("orders", partition, (round_ + partition) % 2)


async def test_fetching_continues_after_a_broker_restart() -> None:
    async with FakeCluster(brokers=2, topics={"orders": 2}) as cluster:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            retry_backoff_ms=10,
        )
        async with consumer:
            append(cluster, numbered(2), 0)
            append(cluster, numbered(2), 1)
            await take(consumer, 4)
            cluster.kill(0)
            append(cluster, numbered(2, 2), 1)
            assert len(await take(consumer, 2)) == 2
            await cluster.restart(0)
            append(cluster, numbered(2, 2), 0)
            assert len(await take(consumer, 2)) == 2


async def test_a_preferred_replica_is_fetched_from_and_left_when_it_fails() -> None:
    async with FakeCluster(brokers=2, topics={"orders": 1}) as cluster:
        leader = cluster.partition("orders", 0).leader
        follower = 1 - leader

        def prefer(response: FetchResponse) -> None:
            for topic in response.responses:
                for data in topic.partitions:
                    data.preferred_read_replica = follower
                    data.records = None

        fault = cluster.control(ApiKey.FETCH, node=leader, after_handling=True, edit=prefer)
        cluster.control(ApiKey.FETCH, node=follower, error=6)
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            retry_backoff_ms=10,
            client_rack="here",
        )
        async with consumer:
            append(cluster, numbered(3))
            await until(lambda: fault.hits == 1)
            assert [r.value for r in await take(consumer, 3)] == numbered(3)
            nodes = [s.node_id for s in cluster.requests if s.api_key == ApiKey.FETCH]
            assert follower in nodes
            assert nodes[-1] == leader  # it is queried again


async def test_a_refresh_visits_only_partitions_with_a_new_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    placed: list[TopicPartition] = []
    place = Fetcher.place

    def counted(fetcher: Fetcher, state: PartitionState, metadata: Metadata) -> None:
        placed.append(state.tp)
        place(fetcher, state, metadata)

    monkeypatch.setattr(Fetcher, "place", counted)
    async with FakeCluster(brokers=2, topics={"orders": 50, "bills": 50}) as cluster:
        consumer = AIOKafkaConsumer(
            "orders", "bills", bootstrap_servers=cluster.bootstrap_servers, fetch_max_wait_ms=10_000
        )
        async with consumer:
            placed.clear()
            await consumer._client.force_metadata_update()
            assert placed == []
            cluster.control(ApiKey.FETCH, times=None, delay=10)  # no leader from a fetch
            moved = TopicPartition("bills", 7)
            cluster.move_leader(*moved, 1 - cluster.partition(*moved).leader)
            await consumer._client.force_metadata_update()
            assert set(placed) == {moved}


async def test_leader_returns_to_a_broker_that_was_missing_from_metadata() -> None:
    """The partition's own metadata stays the same; only the list of brokers changes."""
    async with FakeCluster(brokers=2, topics={"orders": 2}) as cluster:
        leader = cluster.partition("orders", 0).leader
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.address(1 - leader),
            auto_offset_reset="earliest",
            retry_backoff_ms=10,
        )
        async with consumer:
            append(cluster, numbered(1))
            await take(consumer, 1)

            hidden = [leader]

            def hide(response: MetadataResponse) -> None:
                response.brokers = [each for each in response.brokers if each.node_id not in hidden]

            cluster.control(ApiKey.METADATA, times=None, after_handling=True, edit=hide)
            await consumer._client.force_metadata_update()
            state = consumer._core.positions.state(P0)
            assert state.source.node == NOWHERE
            hidden.clear()
            append(cluster, numbered(2))
            await take(consumer, 2)
            assert state.source.node == leader


async def test_lease_of_a_follower_ends_though_its_topic_is_unchanged() -> None:
    async with FakeCluster(brokers=2, topics={"orders": 1}) as cluster:
        leader = cluster.partition("orders", 0).leader

        def prefer(response: FetchResponse) -> None:
            for topic in response.responses:
                for data in topic.partitions:
                    data.preferred_read_replica = 1 - leader
                    data.records = None

        fault = cluster.control(ApiKey.FETCH, node=leader, after_handling=True, edit=prefer)
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            retry_backoff_ms=10,
            client_rack="here",
        )
        async with consumer:
            append(cluster, numbered(1))
            await until(lambda: fault.hits == 1)
            state = consumer._core.positions.state(P0)
            await until(lambda: state.source.node == 1 - leader)
            state.source.replica_until = asyncio.get_running_loop().time()
            await consumer._client.force_metadata_update()
            assert state.source.node == leader
            assert [r.value for r in await take(consumer, 1)] == numbered(1)


async def test_a_follower_that_cannot_be_reached_is_left() -> None:
    async with FakeCluster(brokers=2, topics={"orders": 1}) as cluster:
        leader = cluster.partition("orders", 0).leader

        def prefer(response: FetchResponse) -> None:
            for topic in response.responses:
                for data in topic.partitions:
                    data.preferred_read_replica = 1 - leader
                    data.records = None

        cluster.control(ApiKey.FETCH, node=leader, after_handling=True, edit=prefer)
        mute = cluster.control(ApiKey.FETCH, node=1 - leader, times=None, disconnect=True)
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            retry_backoff_ms=10,
        )
        async with consumer:
            append(cluster, numbered(3))
            assert [record.value for record in await take(consumer, 3)] == numbered(3)
            assert mute.hits == 1


async def test_a_follower_missing_from_metadata_is_forgotten_until_the_leader_names_it_again() -> (
    None
):
    racks = {"racks": ["a", "b"], "replica_selector": "rack_aware"}
    async with FakeCluster(brokers=2, topics={"orders": 1}, **racks) as cluster:
        leader = cluster.partition("orders", 0).leader
        follower = 1 - leader
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            client_rack="ab"[follower],
        )

        def asked() -> list[int]:
            return [seen.node_id for seen in cluster.requests if seen.api_key == ApiKey.FETCH]

        async with consumer:
            append(cluster, numbered(3))
            assert [record.value for record in await take(consumer, 3)] == numbered(3)
            state = consumer._core.positions.state(P0)
            await until(lambda: state.source.node == state.source.replica == follower)

            def leave_out(response: MetadataResponse) -> None:
                response.brokers = [each for each in response.brokers if each.node_id != follower]

            # Its connection stays up: only metadata says that the broker is gone.
            cluster.shrink_isr("orders", 0, [follower])  # the leader no longer names it
            without = cluster.control(
                ApiKey.METADATA, times=None, after_handling=True, edit=leave_out
            )
            await consumer._core.cluster.refresh(asyncio.get_running_loop().time() + 10)
            assert (state.source.node, state.source.replica) == (leader, NOWHERE)
            without.remove()
            await consumer._core.cluster.refresh(asyncio.get_running_loop().time() + 10)
            assert state.source.node == leader
            before = len(asked())
            append(cluster, numbered(3, 3))
            assert [record.value for record in await take(consumer, 3)] == numbered(3, 3)
            assert set(asked()[before:]) <= {leader}
            cluster.expand_isr("orders", 0, [follower])
            await until(lambda: state.source.node == state.source.replica == follower)


async def test_metadata_is_requested_while_an_epoch_stays_unknown(
    cluster: FakeCluster, make: MakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make(retry_backoff_ms=1, fetch_max_wait_ms=5) as consumer:
        consumer.assign([P0])
        refreshes = 0

        def note() -> int:
            nonlocal refreshes
            refreshes += 1
            return 0

        await until(lambda: bool(fetches(cluster)))
        monkeypatch.setattr(consumer._core.cluster, "request_update", note)
        refused = cluster.control(ApiKey.FETCH, times=3, error=errors.UnknownLeaderEpochError)
        await refused.struck(3)
        append(cluster, numbered(1))
        await take(consumer, 1)
        assert refreshes == 2


async def test_a_leader_in_a_fetch_response_is_used() -> None:
    async with FakeCluster(brokers=2, topics={"orders": 1}) as cluster:
        partition = cluster.partition("orders", 0)
        other = 1 - partition.leader

        def hint(response: FetchResponse) -> None:
            for topic in response.responses:
                for data in topic.partitions:
                    if data.error_code:
                        data.current_leader.leader_id = partition.leader
                        data.current_leader.leader_epoch = partition.leader_epoch

        cluster.control(ApiKey.FETCH, after_handling=True, edit=hint, times=None)
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            retry_backoff_ms=60_000,  # only the hint can be fast
        )
        async with consumer:
            append(cluster, numbered(1))
            await take(consumer, 1)
            cluster.move_leader("orders", 0, other)
            append(cluster, numbered(1, 1))
            assert [r.value for r in await take(consumer, 1)] == numbered(1, 1)


async def test_a_partition_that_waits_for_a_thread_does_not_wait_for_memory(
    make: MakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heavy_batches, "HEAVY_BATCH", 1000)
    monkeypatch.setattr(thread_decoding, "HEAVY_CHUNK", 2)
    monkeypatch.setattr(broker_fetch, "LEAST_RESPONSE", 1000)
    chance = random.Random(1)
    async with FakeCluster(topics={"orders": 20}) as cluster:
        for partition in range(20):
            values = [chance.randbytes(100) for _ in range(40)]
            append(cluster, values, partition, compression=Compression.LZ4)
        consumer = make(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            max_partition_fetch_bytes=6000,
            buffer_memory=30_000,
        )
        most = 0
        async with consumer, asyncio.timeout(10):
            for _ in range(20 * 40):
                await consumer.getone()
                most = max(most, consumer._core.buffer.bytes)
        assert 15_000 < most <= 30_000


@pytest.mark.parametrize("codec", [c for c in Compression if c])
async def test_a_small_batch_that_decompresses_to_megabytes_does_so_in_a_thread(
    cluster: FakeCluster,
    make: MakeConsumer,
    monkeypatch: pytest.MonkeyPatch,
    codec: Compression,
) -> None:
    in_loop: list[int] = []
    elsewhere: list[int] = []
    loop_thread = threading.get_ident()

    def watched(data: Bytes, codec: int, *, limit: int) -> bytes:
        out = decompress(data, codec, limit=limit)
        (in_loop if threading.get_ident() == loop_thread else elsewhere).append(len(out))
        return out

    monkeypatch.setattr(import_module(RecordSet.__module__), "decompress", watched)
    monkeypatch.setattr(answers, "LOOP_LIMIT", 100_000)
    append(cluster, numbered(3), compression=codec)
    append(cluster, [bytes(1_000_000), b"end"], compression=codec)
    assert not is_heavy(batch([bytes(1_000_000)], compression=codec))
    async with make("orders") as consumer:
        values = [record.value for record in await take(consumer, 5)]
    assert values == [*numbered(3), bytes(1_000_000), b"end"]
    assert max(in_loop) < 100_000
    assert max(elsewhere) > 1_000_000


async def test_a_read_of_one_partition_does_not_wait_for_the_decoding_of_others(
    cluster: FakeCluster, make: MakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heavy_batches, "HEAVY_BATCH", 100)
    monkeypatch.setattr(thread_decoding, "HEAVY_CHUNK", 2)
    for partition in range(3):
        append(cluster, [bytes(range(200))] * 9, partition, compression=Compression.LZ4)
    async with make("orders") as consumer, asyncio.timeout(5):
        for tp in (P0, P1, P2):
            assert (await consumer.getone(tp)).offset == 0
