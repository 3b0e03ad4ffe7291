"""A real Kafka for any test that requests one, started on first use and shared by the whole run.

A test that uses `kafka`, `kafka3`, `topic` or `topic3` is marked `real`. If no Kafka is available,
these tests are skipped, and the summary at the end of the run lists them;
AIOKAFKA_LITE_REQUIRE_KAFKA=1 makes this a failure.
"""

import asyncio
import contextlib
import functools
import gc
import logging
import os
import random
import uuid
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.broker_logs import LogMarks
from tests.scheduling import by_cluster, on_three_nodes
from tests.seeds import FIRST_SEED, exploring
from tools.gates import FAILED_TESTS
from tools.kafka import (
    KafkaNotAvailable,
    OwnCluster,
    RealKafka,
    available,
    open_cluster,
    open_kafka,
)

REAL_FIXTURES = {"kafka", "kafka3"}  # and the fixtures that use them
REAL_TIMEOUT = 300  # seconds; the first test of a run also pays for jars and the brokers' start
UNIT = Path(__file__).parent / "unit"
NO_KAFKA = "no real Kafka: "

LOG_MARKS = pytest.StashKey[LogMarks]()

TopicFactory = Callable[..., str]

# The time of an example depends on the machine's load, not the code: no test fails for it.
hypothesis.settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "explore", hypothesis.settings.get_profile("ci"), derandomize=False, print_blob=True
)
hypothesis.settings.load_profile("explore" if exploring() else "ci")


@pytest.fixture(autouse=True)
def own_log_levels() -> Iterator[None]:
    """Undo what a test did to logging: a command that runs in this process configures it."""
    root, loop = logging.getLogger(), logging.getLogger("asyncio")
    levels = root.level, loop.level
    handlers = list(root.handlers)
    yield
    root.setLevel(levels[0])
    loop.setLevel(levels[1])
    if root.handlers != handlers:
        for handler in [each for each in root.handlers if type(each) is logging.StreamHandler]:
            root.removeHandler(handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Hide the objects of 18,000 tests from the garbage collector, which takes 0.4 s to visit
    them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=in_order)
    for item in items:
        drawn = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if drawn or "seed" in getattr(getattr(item, "callspec", None), "params", {}):
            item.add_marker(pytest.mark.walk)
        if not REAL_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.real)
        long = item.get_closest_marker("real") or item.get_closest_marker("java")
        if long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(REAL_TIMEOUT))
        if "kafka3" in getattr(item, "fixturenames", ()) and not on_three_nodes(str(item.path)):
            raise pytest.UsageError(
                f"{item.nodeid} uses `kafka3`, but tests/scheduling.py does not find it in its file"
            )
        if long and UNIT in item.path.parents and not says_so(item.path):
            raise pytest.UsageError(
                f"{item.nodeid} needs a real Kafka or Java, but make test-real does not find it: "
                "write `pytest.mark.real` or `pytest.mark.java` in its file, or move it"
            )


def in_order(item: pytest.Item) -> bool:
    """Sorts files on three nodes first: one process runs them all, so it has to begin early."""
    return not on_three_nodes(str(item.path))


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist, there is no such hook
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Run tests on three nodes in a separate process."""
    return by_cluster(config, log) if config.getvalue("dist") == "loadfile" else None


@functools.cache
def says_so(path: Path) -> bool:
    """True if make test-real finds the file among the unit tests."""
    text = path.read_text()
    return "pytest.mark.real" in text or "pytest.mark.java" in text


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a test that needs a real Kafka before any of its fixtures is made.

    Jitter and the like come from Python's shared generator: it begins every test in the same state.
    """
    random.seed(f"{item.nodeid} {FIRST_SEED}")
    if item.get_closest_marker("real"):
        reason = available()
        if reason is not None:
            _go_without(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the log output of the brokers of `kafka3` during a failed test."""
    report = yield
    if report.failed and call.when == "call" and LOG_MARKS in item.stash:
        report.sections.extend(item.stash[LOG_MARKS].sections())
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the ids of failed tests for `tools.gates`; without those of crashed processes."""
    path = os.environ.get(FAILED_TESTS)
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if path and reporter and not hasattr(session.config, "workerinput"):
        reports = [*reporter.stats.get("failed", []), *reporter.stats.get("error", [])]
        Path(path).write_text("".join(f"{each.nodeid}\n" for each in reports if ran(each)))


def ran(report: object) -> bool:
    """True for a report of a test, unlike one of a module or of a crashed process."""
    return getattr(report, "when", None) in ("setup", "call", "teardown")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", []):
        said = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _, found, reason = said.partition(NO_KAFKA)
        if found:
            skipped[reason].append(report.nodeid)
    for reason, names in skipped.items():
        terminalreporter.section("REAL KAFKA TESTS SKIPPED", sep="!", red=True, bold=True)
        for name in names:
            terminalreporter.write_line(name)
        line = f"REAL KAFKA TESTS SKIPPED: {len(names)} tests, because {reason}"
        terminalreporter.write_line(line, red=True, bold=True)


def _go_without(reason: str) -> None:
    if os.environ.get("AIOKAFKA_LITE_REQUIRE_KAFKA") == "1":
        pytest.fail(f"AIOKAFKA_LITE_REQUIRE_KAFKA=1, but {reason}", pytrace=False)
    pytest.skip(NO_KAFKA + reason)


@pytest.fixture(scope="session")
def kafka() -> Iterator[RealKafka]:
    """The newest Kafka, one node, shared by the whole run: never to be killed or paused."""
    with contextlib.ExitStack() as stack:
        try:
            opened = stack.enter_context(open_kafka())
        except KafkaNotAvailable as error:
            _go_without(str(error))
        yield opened


@pytest.fixture(scope="session")
def three_brokers() -> Iterator[OwnCluster]:
    """The cluster of `kafka3`."""
    with contextlib.ExitStack() as stack:
        try:
            opened = stack.enter_context(open_cluster(3))
        except KafkaNotAvailable as error:
            _go_without(str(error))
        yield opened


@pytest.fixture
def kafka3(three_brokers: OwnCluster, request: pytest.FixtureRequest) -> OwnCluster:
    """Three nodes of the newest Kafka, shared by the run: a test that stops one starts it again.

    Every broker lists all others. All replicas of Kafka's own topics are in sync, and their
    preferred leaders lead.
    """
    from tests.in_sync import restore  # a copy of this file runs without the client

    asyncio.run(restore(three_brokers))
    request.node.stash[LOG_MARKS] = LogMarks(three_brokers)
    return three_brokers


@pytest.fixture
def topic(kafka: RealKafka, request: pytest.FixtureRequest) -> TopicFactory:
    """Makes topics of unique names on `kafka`: `topic(6, **{"cleanup.policy": "compact"})`."""
    return _factory(kafka, request.node.name)


@pytest.fixture
def topic3(kafka3: OwnCluster, request: pytest.FixtureRequest) -> TopicFactory:
    """Makes topics of unique names on `kafka3`, replicated three times by default."""
    return _factory(kafka3, request.node.name)


def _factory(cluster: RealKafka, test: str) -> TopicFactory:
    readable = "".join(letter if letter.isalnum() else "-" for letter in test)[:60]

    def make(partitions: int = 1, replication_factor: int | None = None, **config: object) -> str:
        name = f"{readable}-{uuid.uuid4().hex[:10]}"
        cluster.create_topic(name, partitions, replication_factor, config)
        return name

    return make
