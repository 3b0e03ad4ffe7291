"""Work on many partitions is divided among iterations of the event loop.

The tests use the smallest parts, so that other events occur between any two of them.
"""

import asyncio
import contextlib
from collections.abc import Collection

import pytest

from aiokafka_lite import AIOKafkaConsumer, TopicPartition
from aiokafka_lite.cluster import large_metadata, pace
from aiokafka_lite.consumer.fetching import fetcher, loop_budget
from aiokafka_lite.consumer.fetching.broker_fetch import BrokerFetch
from aiokafka_lite.consumer.fetching.in_flight_fetch import UnreadFetch
from aiokafka_lite.consumer.membership import subscription
from aiokafka_lite.consumer.membership.assignment import Assignment
from aiokafka_lite.consumer.offsets import position_checks, position_resolver
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.consumer.partitions.reset_policy import OffsetReset
from aiokafka_lite.errors import ConsumerStoppedError, KafkaProtocolError
from aiokafka_lite.protocol.messages.fetch import FetchResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.makers import until

PARTITIONS = 40
Offsets = dict[TopicPartition, list[int]]


@pytest.fixture(autouse=True)
def smallest_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_metadata, "SLICE", 0.0)
    monkeypatch.setattr(loop_budget, "BUDGET", 1e-9)
    monkeypatch.setattr(fetcher, "PLACED_AT_ONCE", 1)
    monkeypatch.setattr(subscription, "PART", 1)
    monkeypatch.setattr(position_checks, "CHECKED_AT_ONCE", 1)
    monkeypatch.setattr(position_resolver, "LOOKED_UP_AT_ONCE", 0)
    monkeypatch.setattr(pace, "AT_ONCE", 1)


def make(cluster: FakeCluster, *topics: str, **options: object) -> AIOKafkaConsumer:
    defaults: dict[str, object] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": 50,
        "retry_backoff_ms": 10,
    }
    return AIOKafkaConsumer(*topics, **{**defaults, **options})  # type: ignore[arg-type]  # by name


def write(cluster: FakeCluster, topics: Collection[str], first: int = 0) -> None:
    for topic in topics:
        for partition in range(PARTITIONS):
            for number in range(first, first + 3):
                cluster.produce(topic, b"%d" % number, partition=partition)


async def read(consumer: AIOKafkaConsumer, count: int) -> Offsets:
    """The offsets read from each partition, in order."""
    found: Offsets = {}
    async with asyncio.timeout(60):
        while count > 0:
            for tp, records in (await consumer.getmany(timeout_ms=1000)).items():
                count -= len(records)
                found.setdefault(tp, []).extend(record.offset for record in records)
    return found


def each(topics: Collection[str], offsets: list[int]) -> Offsets:
    return {TopicPartition(t, p): offsets for t in topics for p in range(PARTITIONS)}


@pytest.mark.parametrize("pattern", [False, True])
async def test_all_partitions_are_read_once(pattern: bool) -> None:
    names = ["a", "b"]
    async with FakeCluster(brokers=3, topics=dict.fromkeys(names, PARTITIONS)) as cluster:
        write(cluster, names)
        consumer = make(cluster, *([] if pattern else names))
        if pattern:
            consumer.subscribe(pattern="[ab]")
        async with consumer:
            assert consumer.assignment() == set(each(names, []))
            assert await read(consumer, 6 * PARTITIONS) == each(names, [0, 1, 2])


async def test_a_group_reads_all_partitions_once() -> None:
    async with FakeCluster(brokers=3, topics={"a": PARTITIONS}) as cluster:
        write(cluster, "a")
        async with make(cluster, "a", group_id="g") as consumer:
            assert await read(consumer, 3 * PARTITIONS) == each("a", [0, 1, 2])
            await consumer.commit()
        write(cluster, "a", 3)
        async with make(cluster, "a", group_id="g") as consumer:
            assert await read(consumer, 3 * PARTITIONS) == each("a", [3, 4, 5])


@pytest.mark.parametrize("hints", [False, True])
async def test_all_leaders_move_while_records_are_read(hints: bool) -> None:
    async with FakeCluster(brokers=3, topics={"a": PARTITIONS}) as cluster:
        if not hints:
            cluster.control(ApiKey.FETCH, times=None, after_handling=True, edit=without_hints)
        write(cluster, "a")
        async with make(cluster, "a") as consumer:
            found = await read(consumer, 3 * PARTITIONS)
            for turn in range(1, 4):
                for number in range(PARTITIONS):
                    leader = cluster.partition("a", number).leader
                    cluster.move_leader("a", number, (leader + 1) % 3)
                write(cluster, "a", 3 * turn)
                for tp, offsets in (await read(consumer, 3 * PARTITIONS)).items():
                    found[tp] += offsets
            assert found == each("a", list(range(12)))


def without_hints(response: FetchResponse) -> None:
    for topic in response.responses:
        for data in topic.partitions:
            data.current_leader.leader_id = data.current_leader.leader_epoch = -1


async def test_subscription_that_changes_during_start_takes_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    extend = Assignment.extend
    parts = 0

    async with FakeCluster(topics={"a": PARTITIONS, "b": PARTITIONS}) as cluster:
        write(cluster, "ab")
        consumer = make(cluster, "a")

        def interrupted(self: Assignment, partitions: Collection[TopicPartition]) -> None:
            nonlocal parts
            extend(self, partitions)
            parts += 1
            if parts == 5:
                consumer.subscribe(["b"])

        monkeypatch.setattr(Assignment, "extend", interrupted)
        async with consumer:
            assert await read(consumer, 3 * PARTITIONS) == each("b", [0, 1, 2])
            assert consumer.assignment() == set(each("b", []))
        assert parts == 5


async def test_stop_ends_a_start_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    extend = Assignment.extend
    stopping: list[asyncio.Future[None]] = []

    async with FakeCluster(topics={"a": PARTITIONS}) as cluster:
        consumer = make(cluster, "a")

        def interrupted(self: Assignment, partitions: Collection[TopicPartition]) -> None:
            extend(self, partitions)
            if not stopping:
                stopping.append(asyncio.ensure_future(consumer.stop()))

        monkeypatch.setattr(Assignment, "extend", interrupted)
        with pytest.raises(ConsumerStoppedError):
            await consumer.start()
        await stopping[0]


async def test_partitions_lost_while_others_are_placed_are_not_fetched() -> None:
    async with FakeCluster(brokers=2, topics={"a": PARTITIONS}) as cluster:
        write(cluster, "a")
        async with make(cluster) as consumer:
            partitions = sorted(each("a", []))
            consumer.assign(partitions)
            core = consumer._core
            assert core.fetcher.placing
            consumer.assign(partitions[:5])
            await until(lambda: not core.fetcher.placing)
            placed = {s.tp for broker in core.fetcher._brokers.values() for s in broker.partitions}
            assert placed == set(partitions[:5])
            assert await read(consumer, 15) == {tp: [0, 1, 2] for tp in partitions[:5]}


@pytest.fixture
def slow_placing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves time for other events between the parts."""
    place_more = fetcher.Fetcher._place_more

    def later(self: fetcher.Fetcher) -> None:
        self.loop.call_later(0.02, place_more, self)

    monkeypatch.setattr(fetcher.Fetcher, "_place_more", later)


async def test_an_assignment_while_others_are_placed_validates_them_all(
    slow_placing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "PLACED_AT_ONCE", 8)
    monkeypatch.setattr(position_checks, "CHECKED_AT_ONCE", 5000)  # before the others are placed
    async with FakeCluster(brokers=3, topics={"a": PARTITIONS}) as cluster:
        write(cluster, "a")
        async with make(cluster) as consumer:
            partitions = sorted(each("a", []))
            consumer.assign(partitions[:-1])
            await read(consumer, 3 * (PARTITIONS - 1))
            core = consumer._core
            consumer.pause(*partitions[:-1])  # so that no response reports the new leaders
            brokers = core.fetcher._brokers.values()
            await until(lambda: all(broker._in_flight is None for broker in brokers))
            for number in range(PARTITIONS):
                leader = cluster.partition("a", number).leader
                cluster.move_leader("a", number, (leader + 1) % 3)
            await core.cluster.refresh(asyncio.get_running_loop().time() + 10)
            assert core.fetcher.placing
            consumer.assign(partitions)
            await until(lambda: not core.fetcher.placing)
            consumer.resume(*partitions[:-1])
            write(cluster, "a", 3)
            found = await read(consumer, 3 * PARTITIONS + 3)
            expected = each("a", [3, 4, 5])
            assert found == expected | {partitions[-1]: list(range(6))}


async def test_leader_hints_for_many_partitions_need_no_refresh(slow_placing: None) -> None:
    async with FakeCluster(brokers=3, topics={"a": PARTITIONS}) as cluster:
        write(cluster, "a")
        async with make(cluster, "a") as consumer:
            await read(consumer, 3 * PARTITIONS)
            cluster.control(ApiKey.METADATA, times=None, delay=60)
            for number in range(PARTITIONS):
                leader = cluster.partition("a", number).leader
                cluster.move_leader("a", number, (leader + 1) % 3)
            write(cluster, "a", 3)
            assert await read(consumer, 3 * PARTITIONS) == each("a", [3, 4, 5])


async def test_a_recreated_topic_is_not_fetched_at_the_offsets_of_the_old_one(
    slow_placing: None,
) -> None:
    async with FakeCluster(brokers=1, topics={"a": PARTITIONS}) as cluster:
        write(cluster, "a")
        async with make(cluster, "a") as consumer:
            await read(consumer, 3 * PARTITIONS)
            cluster.delete_topic("a")
            cluster.create_topic("a", PARTITIONS)
            write(cluster, "a")
            write(cluster, "a", 3)
            assert await read(consumer, 6 * PARTITIONS) == each("a", list(range(6)))


async def test_brokers_without_partitions_are_left_once_all_are_placed(slow_placing: None) -> None:
    async with FakeCluster(brokers=3, topics={"a": PARTITIONS}) as cluster:
        write(cluster, "a")
        async with make(cluster, "a") as consumer:
            await read(consumer, 3 * PARTITIONS)
            for number in range(PARTITIONS):
                cluster.move_leader("a", number, 0)
            write(cluster, "a", 3)
            await read(consumer, 3 * PARTITIONS)
            await until(lambda: list(consumer._core.fetcher._brokers) == [0])


async def test_every_partition_is_placed_or_due(monkeypatch: pytest.MonkeyPatch) -> None:
    place_some = fetcher.Fetcher._place_some
    seen: list[tuple[int, int]] = []

    def checked(self: fetcher.Fetcher, *args: object) -> object:
        found = place_some(self, *args)  # type: ignore[arg-type]  # as they came
        placed = {state for broker in self._brokers.values() for state in broker.partitions}
        assert placed.isdisjoint(self._due)
        assert placed | set(self._due) == set(self.positions)
        seen.append((len(placed), len(self._due)))
        return found

    monkeypatch.setattr(fetcher.Fetcher, "_place_some", checked)
    async with FakeCluster(brokers=3, topics={"a": PARTITIONS}) as cluster, make(cluster, "a"):
        await until(lambda: seen[-1] == (PARTITIONS, 0))
    assert [placed for placed, _ in seen[:PARTITIONS]] == list(range(1, PARTITIONS + 1))


async def test_an_unreadable_response_of_a_burst_closes_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apply = BrokerFetch._apply
    failures: list[BaseException] = []
    on_lost = BrokerFetch._on_lost

    def spoiled(self: BrokerFetch, response: FetchResponse | UnreadFetch) -> None:
        apply(self, response if failures else UnreadFetch(b"\0" * 7, 13))

    def noted(self: BrokerFetch, error: BaseException) -> None:
        failures.append(error)
        on_lost(self, error)

    monkeypatch.setattr(BrokerFetch, "_apply", spoiled)
    monkeypatch.setattr(BrokerFetch, "_on_lost", noted)
    async with FakeCluster(topics={"a": PARTITIONS}) as cluster:
        write(cluster, "a")
        async with make(cluster, "a") as consumer:
            with pytest.raises(KafkaProtocolError, match="the response to Fetch cannot be read"):
                await consumer.getone()
            found = 0
            async with asyncio.timeout(60):
                while found < 3 * PARTITIONS:
                    with contextlib.suppress(KafkaProtocolError):  # once for each partition
                        found += sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))
    assert isinstance(failures[0], KafkaProtocolError)


async def test_wait_for_positions_ends_once_all_are_known() -> None:
    names = ["a"]
    async with FakeCluster(brokers=2, topics={"a": PARTITIONS}) as cluster:
        write(cluster, names)
        async with make(cluster, *names) as consumer:
            await consumer.seek_to_end()
            write(cluster, names, 3)
            assert await read(consumer, 3 * PARTITIONS) == each(names, [3, 4, 5])


async def test_missing_positions_are_collected_by_one_task_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Concurrent collections would split a broker's lookups into several requests."""
    collect = position_resolver.PositionResolver._look_up_many
    running: list[int] = []
    most = 0

    async def counted(
        self: position_resolver.PositionResolver, states: list[PartitionState]
    ) -> None:
        nonlocal most
        running.append(1)
        most = max(most, len(running))
        await collect(self, states)
        running.pop()

    monkeypatch.setattr(position_resolver.PositionResolver, "_look_up_many", counted)
    async with (
        FakeCluster(brokers=3, topics={"a": PARTITIONS}) as cluster,
        make(cluster, "a") as consumer,
    ):
        await until(lambda: not consumer._core.fetcher.placing)
        before = len(lookups(cluster))

        async def disturb() -> None:
            while True:
                consumer._core.resolver.wake()
                await asyncio.sleep(0)

        disturbing = asyncio.ensure_future(disturb())
        await consumer.seek_to_end()
        disturbing.cancel()
        assert len(lookups(cluster)) - before == 3
    assert most == 1


def lookups(cluster: FakeCluster) -> list[object]:
    return [seen for seen in cluster.requests if seen.api_key == ApiKey.LIST_OFFSETS]


def test_extend_keeps_assigned_partitions() -> None:
    positions = Positions(OffsetReset.EARLIEST, 100)
    first, second = TopicPartition("a", 0), TopicPartition("a", 1)
    (state,) = positions.extend([first])
    state.seek(7)
    (other,) = positions.extend([first, second])
    assert positions.get(first) is state
    assert other.tp == second
    assert set(positions.unsettled) == {state, other}
