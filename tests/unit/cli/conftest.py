"""Runs commands in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aiokafka_lite.cli import main
from aiokafka_lite.testing import FakeCluster

Run = Callable[..., str]


@pytest.fixture
def run(
    kafka_broker: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs a command, checks its status and its output on stderr, and returns its output on
    stdout."""
    monkeypatch.setenv("AIOKAFKA_LITE_BOOTSTRAP_SERVERS", kafka_broker.bootstrap_servers)
    monkeypatch.setenv("AIOKAFKA_LITE_CONFIG", str(tmp_path / "config.toml"))

    def run_one(*arguments: str, status: int = 0, says: str = "") -> str:
        capsys.readouterr()
        assert main(arguments) == status
        captured = capsys.readouterr()
        assert says in captured.err if says else captured.err == ""
        assert "\x1b" not in captured.out + captured.err
        return captured.out

    return run_one
