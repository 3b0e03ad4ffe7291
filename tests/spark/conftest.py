"""Everything in this folder runs on one Spark session, `local[2,4]`, started on first use.

If Spark is not available, these tests are skipped by name, and the run ends with a prominent line
that says so; AIOKAFKA_LITE_REQUIRE_SPARK=1 makes that a failure instead. A test that requests
`connector` compares with Spark's own connector, and is skipped if its jars are not available.
"""

import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.kinds import Kinds
from tests.spark.shared_session import SharedSession
from tools.kafka import KafkaNotAvailable, RealKafka
from tools.spark import connector as connector_jars
from tools.spark import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
TIMEOUT = 900  # seconds; the first test of a run also pays for the session's start
NO_SPARK = "no Spark: "
# py4j leaves sockets to the garbage collector, and pyspark calls what pandas deprecates.
OF_OTHERS = ("ignore::ResourceWarning", "ignore:::pyspark", "ignore:::py4j")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.spark)
        for each in OF_OTHERS:
            item.add_marker(pytest.mark.filterwarnings(each))
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIMEOUT))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a test before any of its fixtures is created."""
    if item.get_closest_marker("spark"):
        reason = missing()
        if reason is not None:
            _go_without(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", []):
        said = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _, found, reason = said.partition(NO_SPARK)
        if found:
            skipped[reason].append(report.nodeid)
    for reason, names in skipped.items():
        terminalreporter.section("SPARK TESTS SKIPPED", sep="!", red=True, bold=True)
        line = f"SPARK TESTS SKIPPED: {len(names)} tests, because {reason}"
        terminalreporter.write_line(line, red=True, bold=True)


def _go_without(reason: str) -> None:
    if os.environ.get("AIOKAFKA_LITE_REQUIRE_SPARK") == "1":
        pytest.fail(f"AIOKAFKA_LITE_REQUIRE_SPARK=1, but {reason}", pytrace=False)
    pytest.skip(NO_SPARK + reason)


@pytest.fixture(scope="session")
def connector_class_path() -> list[Path]:
    """The jars of Spark's own connector; none if they are not available."""
    try:
        return connector_jars()
    except KafkaNotAvailable:
        return []


_SHARED = pytest.StashKey[SharedSession]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    shared = item.config.stash.get(_SHARED, None)
    if report.failed and shared is not None:
        shared.doubted = True
        # pytest-timeout's timeouts and KeyboardInterrupt do not derive from Exception.
        if call.excinfo is not None and not isinstance(call.excinfo.value, Exception):
            shared.interrupted = True
    return report


@pytest.fixture(scope="session")
def shared_session(
    connector_class_path: list[Path], pytestconfig: pytest.Config
) -> Iterator[SharedSession]:
    shared = pytestconfig.stash[_SHARED] = SharedSession(connector_class_path)
    yield shared
    shared.close()


@pytest.fixture
def spark(shared_session: SharedSession) -> "SparkSession":
    """The session, which the whole run shares: a test stops the queries that it started."""
    return shared_session.session()


@pytest.fixture
def connector(spark: "SparkSession", connector_class_path: list[Path]) -> str:
    """The name of Spark's own format, in the same session."""
    if not connector_class_path:
        pytest.skip("the jars of Spark's own Kafka connector cannot be had here")
    return "kafka"


@pytest.fixture(scope="session")
def kinds(kafka: RealKafka) -> Kinds:
    """Topics of every kind, created on first use and shared by all tests, which only read them."""
    return Kinds(kafka)
