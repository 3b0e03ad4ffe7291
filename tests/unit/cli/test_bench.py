"""`bench` counts what it sends and reads, and reports what failed."""

import json
from pathlib import Path

import pytest

from aiokafka_lite.cli import main
from aiokafka_lite.cli.failures import CommandError
from aiokafka_lite.cli.transfer.benchmarking import Measured
from aiokafka_lite.testing import FakeCluster


@pytest.fixture(autouse=True)
def cluster(
    kafka_broker: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> FakeCluster:
    monkeypatch.setenv("AIOKAFKA_LITE_BOOTSTRAP_SERVERS", kafka_broker.bootstrap_servers)
    monkeypatch.setenv("AIOKAFKA_LITE_CONFIG", str(tmp_path / "config.toml"))
    kafka_broker.create_topic("load", 2)
    return kafka_broker


def stored(cluster: FakeCluster) -> int:
    return sum(len(cluster.records("load", partition)) for partition in range(2))


def test_records_are_sent_and_read(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "produce", "load", "--records", "2345", "--size", "50", "-J"]) == 0
    produced = json.loads(capsys.readouterr().out)
    assert (produced["records"], produced["failures"]) == (2345, 0)
    assert stored(cluster) == 2345
    assert {"p50_ms", "p99.9_ms", "max_ms", "cpu_seconds"} <= produced.keys()
    assert main(["bench", "consume", "load", "--num-records", "2000", "-J"]) == 0
    consumed = json.loads(capsys.readouterr().out)
    assert consumed["records"] == 2000


def test_latency_waits_for_each_record(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "latency", "load", "--records", "20", "--record-size", "10"]) == 0
    lines = dict(line.rsplit(None, 1) for line in capsys.readouterr().out.splitlines())
    assert lines["records"] == "20"
    assert float(lines["p50 ms"]) <= float(lines["max ms"])
    assert stored(cluster) == 20


def test_rate_spreads_the_records(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "produce", "load", "--records", "300", "--rate", "1000", "-J"]) == 0
    assert json.loads(capsys.readouterr().out)["records_per_second"] < 2000
    assert stored(cluster) == 300


def test_topic_that_does_not_exist_is_an_error(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "produce", "lod"]) == 1
    assert "topic 'lod' does not exist" in capsys.readouterr().err


def test_warmup_does_not_count() -> None:
    measured = Measured(1e9)
    measured.add(5, 5)
    with pytest.raises(CommandError, match="nothing was measured"):
        measured.result()
    measured = Measured(1e-9)
    measured.latencies.append(1.0)
    measured.add(5, 5)  # ends the warm-up
    measured.latencies.append(0.5)
    measured.add(7, 7)
    result = measured.result()
    assert (result["records"], result["max_ms"]) == (7, 500.0)
