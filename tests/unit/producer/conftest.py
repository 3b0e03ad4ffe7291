"""Both builds of the native hot path, as fixtures: a test that takes one runs with each build."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import pytest

from aiokafka_lite import _build
from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.testing import FakeCluster

ROOM = "aiokafka_lite.producer"
BUILDS = ["native", "python"] if _build.NATIVE else ["python"]


@pytest.fixture(params=BUILDS)
def acks(request: pytest.FixtureRequest) -> ModuleType:
    """`_ack_native`, then its twin."""
    return import_module(f"{ROOM}.batching._ack_{request.param}")


def _take_out() -> dict[str, ModuleType]:
    """Remove the producer's modules, except native ones, from `sys.modules`; return them."""
    names = [name for name in sys.modules if name.startswith(ROOM) and "_native" not in name]
    return {name: sys.modules.pop(name) for name in names}


@pytest.fixture(scope="session", params=BUILDS)
def imported(request: pytest.FixtureRequest) -> dict[str, ModuleType]:
    """All modules of the producer by their full name, reimported with one build, then the other."""
    before, chosen = _take_out(), _build._PURE
    _build._PURE = request.param == "python"  # type: ignore[misc]  # Final: only tests choose again
    try:
        package = import_module(ROOM)
        for found in walk_packages(package.__path__, f"{ROOM}."):
            if not found.name.endswith("_native"):
                import_module(found.name)
    finally:
        _build._PURE = chosen  # type: ignore[misc]  # as above
        modules = _take_out()
        sys.modules.update(before)
    core = modules[f"{ROOM}.batching.accumulator"].AppendCore.__module__  # type: ignore[attr-defined]
    assert core == f"{ROOM}.batching._accumulator_{request.param}"
    return modules


@pytest.fixture
def room(imported: dict[str, ModuleType]) -> Iterator[dict[str, ModuleType]]:
    """The producer's modules by the last part of their name, for each build.

    During the test, imports also find these modules: a producer imports some of its parts late.
    """
    before = _take_out()
    sys.modules.update(imported)
    try:
        yield {name.rpartition(".")[2]: module for name, module in imported.items() if name != ROOM}
    finally:
        _take_out()
        sys.modules.update(before)


@pytest.fixture
async def make_producer(room: dict[str, ModuleType]) -> AsyncIterator[Callable[..., Any]]:
    """Makes producers of a cluster, not started; stops them at the end."""
    made: list[Any] = []

    def make(cluster: FakeCluster, **options: Any) -> Any:
        options.setdefault("retry_backoff_ms", 10)
        producer = room["producer"].AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, **options
        )
        made.append(producer)
        return producer

    yield make
    for producer in made:
        await producer.stop(timeout=0.1)


@pytest.fixture
def stored() -> Callable[[FakeCluster, str], dict[int, list[ConsumerRecord]]]:
    """Reads all records of a topic in a fake cluster, by partition."""

    def read(cluster: FakeCluster, topic: str) -> dict[int, list[ConsumerRecord]]:
        found = {}
        for number in range(len(cluster.state.topics[topic].partitions)):
            log = cluster.partition(topic, number).log
            data, records = bytes(log.read(0, 1 << 30)), []
            if data:
                records = RecordSet(data, topic, number, 0).read(1 << 30)
            found[number] = records
        return found

    return read
