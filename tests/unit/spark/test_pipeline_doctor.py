"""The doctor's checks that need no Spark; it stops at the first failed one."""

import importlib.metadata
import importlib.util
import socket

import pytest

from aiokafka_lite.spark.pipeline import Pipeline, Sink, Source, doctor
from aiokafka_lite.spark.pipeline.doctor import Finding, examine
from aiokafka_lite.spark.pipeline.java import Java, JavaMissing

INSTALLED = {"pyspark": "4.2.0", "pyarrow": "17.0.0", "pandas": "2.2.3"}


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Pipeline]:
    """Everything is installed, but no session can be opened; records the requested pipelines."""
    asked: list[Pipeline] = []

    def refuse(pipeline: Pipeline, **_: object) -> None:
        asked.append(pipeline)
        raise RuntimeError("no session today\nbecause it is a test")

    monkeypatch.setattr(doctor, "find_java", lambda: Java("/bin/java", "21.0.1", 21))
    monkeypatch.setattr(doctor, "open_session", refuse)
    having(monkeypatch, INSTALLED)
    return asked


def having(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: versions.get(name))
    monkeypatch.setattr(importlib.metadata, "version", versions.__getitem__)


def failures(pipeline: Pipeline = doctor.TRIAL) -> list[Finding]:
    return [finding for finding in examine(pipeline) if not finding.well]


def test_a_session_that_cannot_be_opened_is_a_finding(sessions: list[Pipeline]):
    assert failures() == [Finding("session", False, "no session today")]
    assert str(failures()[0]) == "FAIL session      no session today"


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({"pyspark": "4.1.3"}, "4.1.3 is too old: version 4.2+ is required"),
        ({"pyarrow": "16.1.0"}, "16.1.0 is too old: version 17.0+ is required"),
        ({"pandas": "3.1.1"}, "3.1.1: Spark does not support 3 yet: pip install 'pandas<3'"),
    ],
)
def test_unsupported_versions_are_findings(
    sessions: list[Pipeline],
    monkeypatch: pytest.MonkeyPatch,
    versions: dict[str, str],
    words: str,
):
    having(monkeypatch, {**INSTALLED, **versions})
    (name,) = versions
    assert failures() == [Finding(name, False, words)]
    assert not sessions


def test_missing_packages_are_findings(sessions: list[Pipeline], monkeypatch: pytest.MonkeyPatch):
    having(monkeypatch, {})
    found = failures()
    assert [finding.what for finding in found] == ["pyspark", "pyarrow", "pandas"]
    assert all("pip install 'aiokafka_lite[spark]'" in finding.words for finding in found)
    assert not sessions


def test_without_java_no_session_is_tried(
    sessions: list[Pipeline], monkeypatch: pytest.MonkeyPatch
):
    def missing() -> Java:
        raise JavaMissing("there is no java")

    monkeypatch.setattr(doctor, "find_java", missing)
    assert failures() == [Finding("Java", False, "there is no java")]
    assert not sessions


def pipeline(bootstrap: str) -> Pipeline:
    source = Source("kafka_lite", {"kafka.bootstrap.servers": bootstrap, "subscribe": "orders"})
    return Pipeline("orders", source, Sink("noop"))


def test_one_reachable_bootstrap_server_is_enough(sessions: list[Pipeline]):
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_server(("127.0.0.1", 0)) as closed,
    ):
        there = f"127.0.0.1:{server.getsockname()[1]}"
        gone = f"127.0.0.1:{closed.getsockname()[1]}"
        closed.close()
        (found,) = [f for f in examine(pipeline(f"{gone}, {there}")) if "Kafka" in f.what]
        assert found == Finding(f"Kafka {gone}, {there}", True, f"{there} listens")
        (missing,) = [f for f in examine(pipeline(gone)) if "Kafka" in f.what]
    assert not missing.well
    assert gone in missing.words
    assert sessions[0].name == "orders"


@pytest.mark.parametrize(
    ("bootstrap", "words"),
    [("", "kafka.bootstrap.servers is missing"), ("kafka", "kafka: "), ("kafka:x", "kafka:x: ")],
)
def test_invalid_bootstrap_servers_are_findings(
    sessions: list[Pipeline], bootstrap: str, words: str
):
    (found,) = [f for f in examine(pipeline(bootstrap)) if "Kafka" in f.what]
    assert not found.well
    assert words in found.words
    assert sessions
