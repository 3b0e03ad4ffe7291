"""A flood against brokers that are stopped (SIGSTOP) takes buffer_memory and little more."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tools.kafka import KafkaCluster

MORE = 40_000_000  # bytes beyond buffer_memory: interpreter's arenas, frames in flight, queues

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(180),
    pytest.mark.skipif(sys.platform != "linux", reason="it is measured by /proc"),
]


@pytest.fixture(scope="module")
def stoppable() -> Iterator[KafkaCluster]:
    """A separate broker: the shared one must not be paused during other tests."""
    with KafkaCluster() as kafka:
        kafka.create_topic("flooded", 6)
        yield kafka


def test_memory_stays_within_its_budget(stoppable: KafkaCluster) -> None:
    command = [sys.executable, "-m", "tests.faults.flood", stoppable.bootstrap_servers, "flooded"]
    with subprocess.Popen(
        [*command, "100", "drop"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        stoppable.pause(0)
        try:
            process.stdin.write("go\n")
            process.stdin.flush()
            figures = json.loads(process.stdout.readline())
        finally:
            stoppable.resume(0)
        assert process.wait(30) == 0
    grown = figures["peak"] - figures["before"]
    print(f"{grown / 1e6:.1f} MB more: {figures}")
    assert figures["waiting"] > 0, "it was no flood"
    assert figures["available"] < 0.1 * figures["buffer_memory"]
    assert grown < figures["buffer_memory"] + MORE
