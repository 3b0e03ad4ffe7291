"""Fixtures of the consumer's tests: a cluster, its consumers, and both builds of the delivery."""

from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from types import ModuleType

import pytest

from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.fetching.fetcher import Fetcher
from aiokafka_lite.consumer.partitions.fetch_source import NOWHERE
from aiokafka_lite.consumer.partitions.positions import PartitionState
from aiokafka_lite.testing import FakeCluster

MakeConsumer = Callable[..., AIOKafkaConsumer]


@pytest.fixture(autouse=True)
def partitions_follow_their_leaders(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check every partition after each metadata update, of which the fetcher visits only changes.

    A listener's exception would only be logged, so deviations are collected and fail the test.
    """
    deviations: list[str] = []
    follow = Fetcher.on_metadata

    def checked(fetcher: Fetcher, metadata: Metadata) -> None:
        follow(fetcher, metadata)
        deviations.extend(
            filter(
                None,
                (
                    _deviation(s, fetcher, metadata)
                    for s in fetcher.positions
                    if s not in fetcher._due  # those are placed in later iterations
                ),
            )
        )

    monkeypatch.setattr(Fetcher, "on_metadata", checked)
    yield
    assert not deviations


def _deviation(state: PartitionState, fetcher: Fetcher, metadata: Metadata) -> str:
    """Describe what is wrong with a partition that has followed metadata; "" if nothing is."""
    topic, known = metadata.topics.get(state.tp.topic), metadata.partition(*state.tp)
    source, expected = state.source, NOWHERE
    if known is not None and known.leader in metadata.brokers:
        expected = known.leader
    if known is not None and source.replica in metadata.brokers:
        if fetcher.loop.time() < source.replica_until:
            expected = source.replica
        elif source.node == source.replica:
            expected = source.node  # the lease has ended since
    if source.node != expected:
        return f"{state} is fetched from {source.node}, not from {expected}"
    if topic is None or state.rival_id is not None:
        return ""
    if topic.topic_id not in (None, state.topic_id):
        return f"{state} has the topic id {state.topic_id}, not {topic.topic_id}"
    led = None if known is None else (known.leader, known.leader_epoch)
    if led is not None and led[0] in metadata.brokers and led != (state.leader, state.leader_epoch):
        return f"{state} follows {state.leader}, epoch {state.leader_epoch}, not {led}"
    return ""


@pytest.fixture(params=["native", "python"])
def delivery(request: pytest.FixtureRequest) -> ModuleType:
    """`_delivery_native`, then its twin."""
    return import_module(f"aiokafka_lite.consumer.partitions._delivery_{request.param}")


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """One broker with the topic "orders" of three empty partitions."""
    async with FakeCluster(topics={"orders": 3}) as cluster:
        yield cluster


@pytest.fixture
async def make(cluster: FakeCluster) -> AsyncIterator[MakeConsumer]:
    """Makes consumers of the cluster that retry quickly; stops them at the end."""
    made: list[AIOKafkaConsumer] = []

    def make(*topics: str, **options: object) -> AIOKafkaConsumer:
        defaults: dict[str, object] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 50,
            "retry_backoff_ms": 10,
            "request_timeout_ms": 5000,
        }
        consumer = AIOKafkaConsumer(*topics, **{**defaults, **options})  # type: ignore[arg-type]  # by name
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        await consumer.stop()
