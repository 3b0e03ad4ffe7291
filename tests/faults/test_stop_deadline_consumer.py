"""A consumer's `stop` and `unsubscribe` meet their deadline in every state, and leave no tasks."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka_lite.errors import ConsumerStoppedError, KafkaError
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster

WITHIN = 1.0  # maximum seconds of a stop, here
GRACE = 2.5  # seconds beyond: for a busy machine, and for the tasks to end
QUICK = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.min.heartbeat.interval.ms": 50,
}
KINDS: dict[str, dict[str, Any]] = {
    "alone": {},
    "classic": {"group_id": "g", "session_timeout_ms": 6_000, "heartbeat_interval_ms": 50},
    "static": {
        "group_id": "g",
        "group_instance_id": "one",
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 50,
    },
    "consumer": {"group_id": "g", "group_protocol": "consumer"},
}
GROUPED = ("classic", "consumer")
ALL_NODES = range(3)
State = Callable[[FakeCluster, AIOKafkaConsumer], Awaitable[None]]


def mute(*keys: ApiKey) -> State:
    """Requests of these kinds are no longer answered."""

    async def state(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
        for key in keys:
            cluster.control(key, drop=True, times=None)

    state.__name__ = f"mute {' '.join(key.name for key in keys)}"
    return state


def refused(key: ApiKey, code: int) -> State:
    """Requests of this kind are refused all the time."""

    async def state(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
        cluster.control(key, error=code, times=None)

    state.__name__ = f"{key.name} {code}"
    return state


async def in_peace(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
    """Without a fault."""


async def all_brokers_are_paused(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
    for node in ALL_NODES:
        cluster.pause(node)


async def all_brokers_are_killed(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
    for node in ALL_NODES:
        cluster.kill(node)


async def a_broker_is_paused(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
    cluster.pause(0)


async def connections_end(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
    for node in ALL_NODES:
        cluster.disconnect(node)


OF_ALL: list[State] = [
    in_peace,
    a_broker_is_paused,
    all_brokers_are_paused,
    all_brokers_are_killed,
    connections_end,
    mute(ApiKey.FETCH),
    mute(ApiKey.METADATA),
    refused(ApiKey.FETCH, 6),
]
OF_GROUPS: list[State] = [
    mute(ApiKey.OFFSET_COMMIT),
    mute(ApiKey.LEAVE_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT),
    mute(ApiKey.HEARTBEAT, ApiKey.OFFSET_FETCH),
    mute(ApiKey.FIND_COORDINATOR),
    refused(ApiKey.OFFSET_COMMIT, 14),
    refused(ApiKey.OFFSET_COMMIT, 27),
    refused(ApiKey.HEARTBEAT, 27),
    refused(ApiKey.HEARTBEAT, 25),
    refused(ApiKey.CONSUMER_GROUP_HEARTBEAT, 16),
    refused(ApiKey.CONSUMER_GROUP_HEARTBEAT, 110),
    refused(ApiKey.FIND_COORDINATOR, 15),
]
BEFORE_THE_START: list[State] = [
    all_brokers_are_paused,
    all_brokers_are_killed,
    mute(ApiKey.METADATA),
    mute(ApiKey.LIST_OFFSETS),
    mute(ApiKey.FIND_COORDINATOR),
    mute(ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT),
    mute(ApiKey.SYNC_GROUP),
    mute(ApiKey.OFFSET_FETCH),
    refused(ApiKey.FIND_COORDINATOR, 15),
    refused(ApiKey.JOIN_GROUP, 25),
    refused(ApiKey.SYNC_GROUP, 27),
    refused(ApiKey.OFFSET_FETCH, 14),
]
pytestmark = pytest.mark.usefixtures("hurried")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """One second behaves like five, and there are many states."""
    monkeypatch.setattr("aiokafka_lite.consumer.core.STOP_WITHIN", WITHIN)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(brokers=3, topics={"orders": 3}, broker_configs=QUICK) as running:
        yield running


def make(cluster: FakeCluster, kind: str, **options: Any) -> AIOKafkaConsumer:
    settings: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "auto_offset_reset": "earliest",
        "request_timeout_ms": 20_000,
        "fetch_max_wait_ms": 100,
    }
    return AIOKafkaConsumer(**{**settings, **KINDS[kind], **options})


class Listener(ConsumerRebalanceListener):
    """Its callbacks last as long as the test requires.

    Attributes:
        lasts: The callback that does not return.
        called: Set by that callback.
    """

    def __init__(self, *, lasts: str = "") -> None:
        self.called = asyncio.Event()
        self.lasts = lasts

    async def on_partitions_revoked(self, revoked: set[Any]) -> None:
        await self._wait("revoked")

    async def on_partitions_assigned(self, assigned: set[Any]) -> None:
        await self._wait("assigned")

    async def _wait(self, what: str) -> None:
        if what == self.lasts:
            self.called.set()
            await asyncio.Event().wait()


async def fill(cluster: FakeCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for partition in range(3):
            for _ in range(20):
                await producer.send("orders", b"x" * 100, partition=partition)


async def assert_stops(consumer: AIOKafkaConsumer, before: "set[asyncio.Task[Any]]") -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await consumer.stop()
    took = loop.time() - began
    assert took < WITHIN + GRACE, f"stop took {took:.1f} s"
    await consumer.stop()
    for _ in range(10):
        names = {task: task.get_name() for task in asyncio.all_tasks() - before}
        left = [name for name in names.values() if "aiokafka_lite" in name]
        if not left:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"left running: {left}")


def _pairs(states: list[State], kinds: tuple[str, ...]) -> list[tuple[State, str]]:
    return [(state, kind) for state in states for kind in kinds]


def _name(value: object) -> str:
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        *_pairs(OF_ALL, ("alone", *GROUPED)),
        *_pairs(OF_GROUPS, GROUPED),
        *_pairs(OF_ALL[:4], ("static",)),
    ],
    ids=_name,
)
async def test_stop_ends_by_its_timeout(cluster: FakeCluster, state: State, kind: str) -> None:
    """With reads waiting, a commit under way, and something that auto-commit has to commit."""
    await fill(cluster)
    before = asyncio.all_tasks()
    consumer = make(cluster, kind)
    consumer.subscribe(["orders"], listener=Listener())
    await consumer.start()
    for _ in range(10):
        await consumer.getone()
    await state(cluster, consumer)
    waiting = [asyncio.create_task(consumer.getone()) for _ in range(60)]
    waiting.append(asyncio.create_task(_whole(consumer.getmany(timeout_ms=60_000))))
    if kind != "alone":
        waiting.append(asyncio.create_task(consumer.commit()))
    await asyncio.sleep(0.1)
    await assert_stops(consumer, before)
    done, pending = await asyncio.wait(waiting, timeout=1)
    assert not pending
    for task in done:
        error = task.exception()
        assert error is None or isinstance(error, KafkaError | ConsumerStoppedError), repr(error)


async def _whole(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


@pytest.mark.parametrize("passes", [1, 100_000])
@pytest.mark.parametrize(
    ("state", "kind"),
    [*_pairs(BEFORE_THE_START[:4], ("alone",)), *_pairs(BEFORE_THE_START, GROUPED)],
    ids=_name,
)
async def test_stop_during_the_start(
    cluster: FakeCluster, state: State, kind: str, passes: int
) -> None:
    before = asyncio.all_tasks()
    consumer = make(cluster, kind)
    consumer.subscribe(["orders"], listener=Listener())
    await state(cluster, consumer)
    starting = asyncio.create_task(consumer.start())
    ends = asyncio.get_running_loop().time() + 0.3
    for _ in range(passes):
        if asyncio.get_running_loop().time() > ends:
            break
        await asyncio.sleep(0)
    await assert_stops(consumer, before | {starting})
    await asyncio.wait([starting], timeout=1)
    assert starting.done()
    assert starting.cancelled() or isinstance(starting.exception(), Exception | None)


@pytest.mark.parametrize("kind", GROUPED)
async def test_stop_during_a_start_with_a_hanging_listener(cluster: FakeCluster, kind: str) -> None:
    """The start waits for it."""
    consumer = make(cluster, kind)
    listener = Listener(lasts="assigned")
    consumer.subscribe(["orders"], listener=listener)
    starting = asyncio.create_task(consumer.start())
    await asyncio.wait_for(listener.called.wait(), 5)
    await assert_stops(consumer, {starting})
    await asyncio.wait([starting], timeout=1)
    assert starting.done()
    assert isinstance(starting.exception(), ConsumerStoppedError | None)


@pytest.mark.parametrize("kind", GROUPED)
async def test_stop_with_a_hanging_listener(cluster: FakeCluster, kind: str) -> None:
    before = asyncio.all_tasks()
    consumer = make(cluster, kind)
    listener = Listener()
    consumer.subscribe(["orders"], listener=listener)
    await consumer.start()
    listener.lasts = "revoked"
    await assert_stops(consumer, before)
    assert listener.called.is_set()


@pytest.mark.parametrize("state", [*OF_ALL, *OF_GROUPS], ids=_name)
@pytest.mark.parametrize("kind", GROUPED)
async def test_stop_after_unsubscribe_ends_by_its_timeout(
    cluster: FakeCluster, state: State, kind: str
) -> None:
    """It is synchronous; the work that it leaves ends with the consumer, at the latest."""
    await fill(cluster)
    before = asyncio.all_tasks()
    consumer = make(cluster, kind)
    consumer.subscribe(["orders"], listener=Listener())
    await consumer.start()
    for _ in range(10):
        await consumer.getone()
    await state(cluster, consumer)
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    assert consumer.subscription() == frozenset()
    assert await consumer.getmany(timeout_ms=50) == {}
    await assert_stops(consumer, before)


@pytest.mark.parametrize("kind", KINDS)
async def test_another_member_takes_over_after_stop(cluster: FakeCluster, kind: str) -> None:
    """It has left: the next member does not wait for its session to end, and begins where it
    was."""
    await fill(cluster)
    first, second = make(cluster, kind), make(cluster, kind)
    for consumer in (first, second):
        consumer.subscribe(["orders"])
    await first.start()
    seen = {((record := await first.getone()).partition, record.offset) for _ in range(30)}
    await first.stop()
    async with asyncio.timeout(4):
        await second.start()
        count = 60 if kind == "alone" else 30
        more = {((record := await second.getone()).partition, record.offset) for _ in range(count)}
    await second.stop()
    assert len(seen | more) == 60
    assert kind == "alone" or not seen & more


@pytest.mark.parametrize("kind", GROUPED)
async def test_cancelled_listener_is_logged_without_a_traceback(
    cluster: FakeCluster, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It has not failed: no traceback is of use."""
    consumer = make(cluster, kind)
    listener = Listener()
    consumer.subscribe(["orders"], listener=listener)
    await consumer.start()
    listener.lasts = "revoked"
    await consumer.stop()
    told = [record for record in caplog.records if record.name.endswith("rebalance_listeners")]
    assert [record.levelname for record in told] == ["WARNING"]
    assert "had not returned when the consumer stopped" in told[0].getMessage()
    assert told[0].exc_info is None
