"""The pytest plugin of aiokafka_lite: an embedded Kafka for each test that requests one.

- `kafka_broker` has one broker, `kafka_cluster` three. Both are a started
  `aiokafka_lite.testing.FakeCluster`, separate for each test and running in its own thread, so
  that sync, asyncio and trio tests can use them.
- `kafka_topic` is the name of a new topic on it; `kafka_topic_factory` creates more.
- `@pytest.mark.kafka(topics={"orders": 6}, version="2.8")` passes arguments to FakeCluster. A
  marker of the test overrides those of its class and module. A clock class, as in
  `clock=VirtualClock`, gives each test its own clock.

An internal error of a broker fails the test. This module does not import the package when loaded.
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
LONGEST_NAME = 100  # characters of a test's name in its topic's name; Kafka allows 249 in all

_CLUSTERS = pytest.StashKey["list[FakeCluster]"]()  # the clusters of a test


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test whose broker had an internal error, unless the test itself failed."""
    result = yield
    for cluster in item.stash.get(_CLUSTERS, []):
        cluster.raise_failures()
    return result


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    """A started `FakeCluster` of one broker; connect to its `bootstrap_servers`."""
    yield from _started(request, brokers=1)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    """A started `FakeCluster` of three brokers; connect to its `bootstrap_servers`."""
    yield from _started(request, brokers=3)


@pytest.fixture
def kafka_topic(kafka_topic_factory: Callable[..., str]) -> str:
    """The name of a new topic with one partition."""
    return kafka_topic_factory()


@pytest.fixture
def kafka_topic_factory(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Creates topics: `kafka_topic_factory(6, {"cleanup.policy": "compact"})` returns a name.

    The topic is on the test's `kafka_cluster` if it uses that fixture, otherwise on its
    `kafka_broker`.
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
            raise pytest.UsageError("@pytest.mark.kafka accepts keyword arguments only")
        arguments.update(marker.kwargs)
    if isinstance(arguments.get("clock"), type):
        arguments["clock"] = arguments["clock"]()  # a separate clock for each test
    try:
        cluster = FakeCluster(**arguments)
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"@pytest.mark.kafka: {error}") from error
    with cluster:  # leaving it raises errors that occurred after the test's own code
        request.node.stash.setdefault(_CLUSTERS, []).append(cluster)
        yield cluster
