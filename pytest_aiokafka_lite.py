"""The pytest plugin of aiokafka_lite: a Kafka for each test that asks for one.

- `kafka_broker`: one broker; `kafka_cluster`: three. Both are a started
  `aiokafka_lite.testing.FakeCluster` of the test's own, in a thread of its own, so that sync
  tests, asyncio's and trio's use them alike.
- `kafka_topic`: the name of a fresh topic on it; `kafka_topic_factory` makes more.
- `@pytest.mark.kafka(topics={"orders": 6}, version="2.8")`: FakeCluster's own arguments. A
  nearer marker goes before one of the class or the module. A clock's class, as in
  `clock=VirtualClock`, gives each test a clock of its own.

A failure inside the brokers fails the test. Loading this module imports nothing of the package.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from aiokafka_lite.testing import FakeCluster

MARKER = "kafka(brokers=, topics=, version=, ...): arguments of the test's FakeCluster"
LONGEST_NAME = 100  # characters of a test's name in that of its topic; Kafka takes 249 in all

_CLUSTERS = pytest.StashKey["list[FakeCluster]"]()  # those that a test uses


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test whose broker has failed; one that failed by itself says why on its own."""
    result = yield
    for cluster in item.stash.get(_CLUSTERS, []):
        cluster.raise_failures()
    return result


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    """A Kafka of one broker: `bootstrap_servers`, and all that a `FakeCluster` can do."""
    yield from _started(request, brokers=1)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    """A Kafka of three brokers: `bootstrap_servers`, and all that a `FakeCluster` can do."""
    yield from _started(request, brokers=3)


@pytest.fixture
def kafka_topic(kafka_topic_factory: Callable[..., str]) -> str:
    """The name of a fresh topic with one partition."""
    return kafka_topic_factory()


@pytest.fixture
def kafka_topic_factory(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes fresh topics: `kafka_topic_factory(6, {"cleanup.policy": "compact"})` is a name.

    They are on the test's `kafka_cluster` if it uses that, and else on its `kafka_broker`.
    """
    fixture = "kafka_cluster" if "kafka_cluster" in request.fixturenames else "kafka_broker"
    cluster: FakeCluster = request.getfixturevalue(fixture)
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:LONGEST_NAME].strip("-")
    numbers = itertools.count(1)

    def make(partitions: int = 1, configs: dict[str, str | None] | None = None) -> str:
        name = f"{readable}-{next(numbers)}"
        cluster.create_topic(name, partitions, configs=configs)
        return name

    return make


def _started(request: pytest.FixtureRequest, brokers: int) -> Iterator[FakeCluster]:
    from aiokafka_lite.testing import FakeCluster

    arguments: dict[str, Any] = {"brokers": brokers}
    for marker in reversed(list(request.node.iter_markers("kafka"))):
        if marker.args:
            raise pytest.UsageError("@pytest.mark.kafka takes arguments by name only")
        arguments.update(marker.kwargs)
    if isinstance(arguments.get("clock"), type):
        arguments["clock"] = arguments["clock"]()  # a clock of the test's own
    try:
        cluster = FakeCluster(**arguments)
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"@pytest.mark.kafka: {error}") from error
    with cluster:  # its end tells what failed after the test's own code
        request.node.stash.setdefault(_CLUSTERS, []).append(cluster)
        yield cluster
