"""Fetch sessions of a whole consumer against embedded brokers: whatever happens to a session,
every record is read once, in order, and a fetch names only changed partitions."""

import asyncio
import random
from collections.abc import Callable

import pytest

from aiokafka_lite import errors
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.net.throttle import LONGEST_THROTTLE
from aiokafka_lite.protocol.messages.fetch import FetchRequest, FetchResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.seeds import seeds
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.consumer.makers import append, numbered, until

pytestmark = pytest.mark.unhurried

P0, P1, P2 = (TopicPartition("orders", i) for i in range(3))

FINAL_EPOCH = -1


def requests(cluster: FakeCluster) -> list[FetchRequest]:
    return [seen.body for seen in cluster.requests if isinstance(seen.body, FetchRequest)]


def named(request: FetchRequest) -> set[int]:
    """The partitions that a request names."""
    return {p.partition for topic in request.topics for p in topic.partitions}


def forgotten(request: FetchRequest) -> set[int]:
    return {p for topic in request.forgotten_topics_data for p in topic.partitions}


def sessions(cluster: FakeCluster, node: int = 0) -> dict[int, int]:
    """The sessions that a broker keeps: the number of partitions by id."""
    return {kept.session_id: len(kept) for kept in cluster.state.fetch_sessions[node]}


async def another_fetch(cluster: FakeCluster) -> None:
    seen = len(requests(cluster))
    await until(lambda: len(requests(cluster)) > seen)


async def take(consumer: AIOKafkaConsumer, count: int) -> list[tuple[int, int]]:
    """This many records, as partition and offset."""
    async with asyncio.timeout(20):
        records = [await consumer.getone() for _ in range(count)]
    return [(record.partition, record.offset) for record in records]


# --- what is written


async def test_a_fetch_contains_only_changed_partitions(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    async with make("orders", fetch_max_wait_ms=10_000) as consumer:
        await until(lambda: len(requests(cluster)) == 1)
        (first,) = requests(cluster)
        assert (first.session_id, first.session_epoch, named(first)) == (0, 0, {0, 1, 2})
        append(cluster, numbered(2), 1)
        assert await take(consumer, 2) == [(1, 0), (1, 1)]
        await until(lambda: len(requests(cluster)) == 2)
        second = requests(cluster)[1]
        assert sessions(cluster) == {second.session_id: 3}
        assert (second.session_epoch, named(second), forgotten(second)) == (1, {1}, set())
        append(cluster, numbered(2), 2)
        await take(consumer, 2)
        await until(lambda: len(requests(cluster)) == 3)
        third = requests(cluster)[2]
        assert (third.session_epoch, named(third), forgotten(third)) == (2, {2}, set())


async def test_a_paused_partition_leaves_the_session_and_returns(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(3), 0)
    async with make("orders", fetch_max_wait_ms=20) as consumer:
        assert await take(consumer, 1) == [(0, 0)]
        consumer.pause(P0)
        await until(lambda: 0 in forgotten(requests(cluster)[-1]))
        quiet = len(requests(cluster))
        await until(lambda: len(requests(cluster)) >= quiet + 3)
        assert all(
            not named(request) and not forgotten(request) for request in requests(cluster)[quiet:]
        )
        assert list(sessions(cluster).values()) == [2]
        append(cluster, numbered(1, 3), 0)
        consumer.resume(P0)
        assert await take(consumer, 3) == [(0, 1), (0, 2), (0, 3)]
        assert list(sessions(cluster).values()) == [3]
        assert len({request.session_id for request in requests(cluster)}) == 2  # 0, then one


async def test_the_session_stays_when_the_assignment_changes(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(2), 0)
    append(cluster, numbered(2), 1)
    async with make(fetch_max_wait_ms=20) as consumer:
        consumer.assign([P0])
        assert await take(consumer, 2) == [(0, 0), (0, 1)]
        await until(lambda: len(sessions(cluster)) == 1)
        begun = sessions(cluster)
        consumer.assign([P1])
        assert await take(consumer, 2) == [(1, 0), (1, 1)]
        consumer.assign([P0, P1, P2])
        assert await take(consumer, 2) == [(0, 0), (0, 1)]
        await until(lambda: list(sessions(cluster).values()) == [3])
        assert sessions(cluster).keys() == begun.keys()


async def test_a_partition_restored_at_once_keeps_its_end_offset(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    """The broker kept the session, and repeats nothing."""
    append(cluster, numbered(2), 0)
    async with make(fetch_max_wait_ms=20) as consumer:
        consumer.assign([P0, P1])
        await take(consumer, 2)
        await until(lambda: len(requests(cluster)) >= 4)
        consumer.assign([P1])
        consumer.assign([P0, P1])
        consumer.seek(P0, 2)
        await until(lambda: consumer.highwater(P0) == 2)
        polled = consumer.last_poll_timestamp(P0)
        assert polled is not None
        await until(lambda: (consumer.last_poll_timestamp(P0) or 0) > polled)


async def test_brokers_before_1_1_have_no_sessions() -> None:
    async with FakeCluster(topics={"orders": 3}, version="1.0") as cluster:
        append(cluster, numbered(3), 0)
        async with AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=10,
        ) as consumer:
            assert await take(consumer, 3) == [(0, 0), (0, 1), (0, 2)]
            await until(lambda: len(requests(cluster)) >= 4)
        assert all(named(request) == {0, 1, 2} for request in requests(cluster)[2:])
        assert sessions(cluster) == {}


# --- what happens to a session


def evicted(cluster: FakeCluster) -> None:
    cluster.state.fetch_sessions[0].clear()


def cut(cluster: FakeCluster) -> None:
    cluster.disconnect()


def no_room(cluster: FakeCluster) -> None:
    cluster.state.fetch_sessions[0].slots = 0
    evicted(cluster)


def epoch_lost(cluster: FakeCluster) -> None:
    for kept in cluster.state.fetch_sessions[0]:
        kept.epoch += 1


def answer_lost(cluster: FakeCluster) -> None:
    cluster.control(ApiKey.FETCH, after_handling=True, disconnect=True)


def request_lost(cluster: FakeCluster) -> None:
    cluster.control(ApiKey.FETCH, disconnect=True)


def refused(code: int) -> Callable[[FakeCluster], None]:
    """The broker applies the request to the session, and returns an error."""

    def strike(cluster: FakeCluster) -> None:
        def edit(response: FetchResponse) -> None:
            response.error_code = code
            response.responses = []

        cluster.control(ApiKey.FETCH, after_handling=True, edit=edit)

    return strike


def throttled(cluster: FakeCluster, milliseconds: int = 5) -> None:
    """As in KIP-219: the response is empty, and a full fetch opens no session."""

    def edit(response: FetchResponse) -> None:
        response.throttle_time_ms = milliseconds

    cluster.control(ApiKey.FETCH, after_handling=True, edit=edit)


FATES: dict[str, Callable[[FakeCluster], None]] = {
    "evicted": evicted,
    "no room": no_room,
    "cut": cut,
    "epoch lost": epoch_lost,
    "answer lost": answer_lost,
    "request lost": request_lost,
    "throttled": throttled,
    **{
        kind.__name__: refused(kind.errno)
        for kind in (
            errors.FetchSessionIdNotFound,
            errors.InvalidFetchSessionEpoch,
            errors.FetchSessionTopicIdError,
            errors.UnknownTopicIdError,
            errors.InconsistentTopicIdError,
            errors.UnknownError,
        )
    },
}


@pytest.mark.parametrize("repeats", [1, 3], ids=["once", "thrice"])
@pytest.mark.parametrize("fate", FATES)
async def test_nothing_is_lost_nor_read_twice(
    cluster: FakeCluster, make: MakeConsumer, fate: str, repeats: int
) -> None:
    options = {"fetch_max_wait_ms": 10, "retry_backoff_ms": 1, "consumer_timeout_ms": 5}
    async with make("orders", **options) as consumer:
        for begin in range(0, 40, 10):
            for partition in range(3):
                append(cluster, numbered(10), partition)
            read = await take(consumer, 30)
            assert sorted(read) == sorted(
                (p, o) for p in range(3) for o in range(begin, begin + 10)
            )
            for _ in range(repeats):
                FATES[fate](cluster)
                await another_fetch(cluster)
        for partition in range(3):
            append(cluster, numbered(1), partition)
        assert sorted(await take(consumer, 3)) == [(0, 40), (1, 40), (2, 40)]
        if fate != "no room":
            await until(lambda: sorted(sessions(cluster).values())[-1:] == [3])


@pytest.mark.parametrize(
    "strike", [refused(106), lambda it: throttled(it, 1)], ids=["106", "throttle"]
)
async def test_a_pause_that_ends_between_two_clock_reads_does_not_stop_fetches(
    cluster: FakeCluster,
    make: MakeConsumer,
    monkeypatch: pytest.MonkeyPatch,
    strike: Callable[[FakeCluster], None],
) -> None:
    """In some steps, the pause of about 1 ms has not ended when the task decides against a
    fetch, but has ended when it next reads the clock."""
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, 0.0
    step = 0.0

    def look() -> float:
        nonlocal ahead
        ahead += step
        return real() + ahead

    async with make("orders", fetch_max_wait_ms=10, retry_backoff_ms=1) as consumer:
        await another_fetch(cluster)
        monkeypatch.setattr(loop, "time", look)
        for microseconds in range(50, 1300, 50):
            step = microseconds * 1e-6
            strike(cluster)
            await another_fetch(cluster)
            await another_fetch(cluster)
        append(cluster, numbered(1))
        assert await take(consumer, 1) == [(0, 0)]


async def test_an_evicted_session_is_replaced_at_once(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    async with make("orders", retry_backoff_ms=60_000, fetch_max_wait_ms=50) as consumer:
        await until(lambda: len(sessions(cluster)) == 1)
        await until(lambda: len(requests(cluster)) >= 2)
        evicted(cluster)
        append(cluster, numbered(1))
        assert await take(consumer, 1) == [(0, 0)]


async def test_a_broker_that_refuses_every_session_receives_fetches_with_backoff(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    code = errors.InvalidFetchSessionEpoch.errno
    cluster.control(ApiKey.FETCH, respond_with=FetchResponse(error_code=code), times=None)
    async with make("orders", retry_backoff_ms=100):
        await until(lambda: len(requests(cluster)) >= 2)
        before = len(requests(cluster))
        await asyncio.sleep(0.5)
        assert len(requests(cluster)) - before <= 8


async def test_a_topic_that_is_made_again_is_read_under_its_new_id(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(3))
    async with make(fetch_max_wait_ms=10, metadata_max_age_ms=50) as consumer:
        consumer.assign([P0, P1])
        assert len(await take(consumer, 3)) == 3
        cluster.delete_topic("orders")
        cluster.create_topic("orders", 3)
        append(cluster, numbered(5))
        async with asyncio.timeout(20):
            while (await consumer.getone()).offset != 4:
                pass


async def test_a_topic_whose_id_is_not_known_is_fetched_by_name() -> None:
    """Another broker's metadata is older than topic ids."""
    versions = {int(ApiKey.METADATA): (0, 9)}
    async with FakeCluster(topics={"orders": 3}, api_versions=versions) as cluster:
        append(cluster, numbered(3))
        async with AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=10,
        ) as consumer:
            assert len(await take(consumer, 3)) == 3
            await until(lambda: list(sessions(cluster).values()) == [3])
        assert {topic.topic for request in requests(cluster) for topic in request.topics} == {
            "orders"
        }


@pytest.mark.parametrize("seed", seeds(4))
async def test_any_sequence_of_fates(seed: int) -> None:
    """Two brokers, twelve partitions, anything at any moment: each partition is read in order."""
    chance = random.Random(seed)
    async with FakeCluster(brokers=2, topics={"orders": 12}, seed=seed) as cluster:
        tps = [TopicPartition("orders", index) for index in range(12)]
        written = dict.fromkeys(tps, 0)
        read = dict.fromkeys(tps, 0)
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=5,
            retry_backoff_ms=1,
            consumer_timeout_ms=2,
            max_partition_fetch_bytes=2000,
            buffer_memory=20_000,
        )

        def produce() -> None:
            tp = chance.choice(tps)
            append(cluster, [bytes(100)] * chance.randint(1, 30), tp.partition)
            written[tp] = cluster.partition(*tp).log.end_offset

        def evict() -> None:
            cluster.state.fetch_sessions[chance.randrange(2)].clear()

        def pause() -> None:
            consumer.pause(*chance.sample(tps, 3))

        def resume() -> None:
            consumer.resume(*tps)

        def seek() -> None:
            tp = chance.choice(tps)
            read[tp] = chance.randint(0, written[tp])
            consumer.seek(tp, read[tp])

        def move() -> None:
            cluster.move_leader("orders", chance.randrange(12), chance.randrange(2))

        def strike() -> None:
            chance.choice([FATES["answer lost"], FATES["InvalidFetchSessionEpoch"], throttled])(
                cluster
            )

        acts = [produce] * 6 + [evict, pause, resume, seek, move, strike]

        async def read_some() -> None:
            for tp, records in (await consumer.getmany(timeout_ms=5)).items():
                assert [r.offset for r in records] == list(range(read[tp], read[tp] + len(records)))
                read[tp] += len(records)

        async with consumer:
            for _ in range(150):
                chance.choice(acts)()
                await read_some()
            resume()
            async with asyncio.timeout(20):
                while read != written:
                    await read_some()


async def test_a_broker_that_loses_all_its_partitions_is_heard_once() -> None:
    """Each error names the new leader (KIP-951): all partitions are checked once, not once each."""
    async with FakeCluster(brokers=2, topics={"orders": 300}) as cluster:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=20,
            retry_backoff_ms=20,
        )
        async with consumer:
            await until(
                lambda: all(p.source.highwater is not None for p in consumer._core.positions)
            )
            heard: list[int] = []
            consumer._core.cluster.add_listener(lambda metadata: heard.append(metadata.version))
            for partition in range(300):
                cluster.move_leader("orders", partition, 1)
            append(cluster, numbered(1), 7)
            append(cluster, numbered(1), 8)
            assert sorted(await take(consumer, 2)) == [(7, 0), (8, 0)]
            await until(lambda: all(p.source.node == 1 for p in consumer._core.positions))
            assert len(heard) < 20


# --- the end of a session


async def test_the_session_ends_with_the_consumer(cluster: FakeCluster, make: MakeConsumer) -> None:
    consumer = make("orders", fetch_max_wait_ms=10_000)
    async with consumer:
        append(cluster, numbered(1))
        await take(consumer, 1)
        # The next fetch waits at the broker when the consumer is stopped.
        await until(lambda: len(requests(cluster)) == 2 and len(sessions(cluster)) == 1)
    assert sessions(cluster) == {}
    assert requests(cluster)[-1].session_epoch == FINAL_EPOCH


async def test_a_session_without_partitions_is_closed_at_its_broker() -> None:
    async with FakeCluster(brokers=2, topics={"orders": 1}) as cluster:
        node = cluster.partition("orders", 0).leader
        async with AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=10,
            retry_backoff_ms=1,
        ) as consumer:
            append(cluster, numbered(1))
            await take(consumer, 1)
            await until(lambda: len(sessions(cluster, node)) == 1)
            cluster.move_leader("orders", 0, 1 - node)
            await until(lambda: len(sessions(cluster, 1 - node)) == 1)
            await until(lambda: not sessions(cluster, node))


async def test_a_broker_that_does_not_answer_does_not_hold_up_the_end(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    consumer = make("orders", fetch_max_wait_ms=10_000)
    async with consumer:
        append(cluster, numbered(1))
        await take(consumer, 1)
        await until(lambda: len(requests(cluster)) == 2)
        cluster.pause(0)
        async with asyncio.timeout(4):
            await consumer.stop()
    cluster.resume(0)


async def test_a_throttle_is_heeded_for_so_long_at_most(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    def edit(response: FetchResponse) -> None:
        response.throttle_time_ms = 2**31 - 1

    cluster.control(ApiKey.FETCH, after_handling=True, edit=edit)
    async with make("orders", fetch_max_wait_ms=10) as consumer:
        await until(lambda: len(requests(cluster)) == 1)
        (broker,) = consumer._core.fetcher._brokers.values()
        await until(lambda: broker._not_before > 0)
        left = broker._not_before - asyncio.get_running_loop().time()
        assert 0 < left <= LONGEST_THROTTLE
