"""Unlimited growth and unlimited logging are reported."""

import os
import subprocess
import sys
import time

import pytest

from tests.faults.process_watch import Use, Watch, growth, repeated, role_of


def used(role: str, sizes: list[int], *, begin: float = 600.0) -> Use:
    return Use(role, [(begin + 5.0 * number, size) for number, size in enumerate(sizes)], 10, 2)


def test_memory_that_stays_is_no_growth() -> None:
    assert growth([100_000 + 3_000 * (number % 2) for number in range(60)]) is None


def test_memory_that_grows_is_reported_with_the_role_of_its_process() -> None:
    growing = [100_000 + 500 * number for number in range(60)]
    wrong = ["consumer_worker: memory grew from 105000 to 125000 KiB"]
    assert used("consumer_worker", growing).judge() == wrong


@pytest.mark.parametrize("role", ["lane producer", "java"])
def test_memory_of_ledgers_and_brokers_may_grow(role: str) -> None:
    assert used(role, [100_000 + 500 * number for number in range(60)]).judge() == []


def test_memory_may_grow_before_the_warm_up_ends() -> None:
    growing = [100_000 + 500 * number for number in range(60)]
    assert used("consumer_worker", growing, begin=0.0).judge() == []


def test_many_descriptors_and_threads_are_reported() -> None:
    assert Use("share_worker", [], 300, 61).judge() == [
        "share_worker had 300 descriptors",
        "share_worker had 61 threads",
    ]


@pytest.mark.parametrize(
    ("command", "role"),
    [
        (
            "/venv/bin/python -m tests.faults.endurance_lane steady 127.0.0.1:1 4.4.0 /x",
            "lane steady",
        ),
        ("/venv/bin/python -m tests.faults.consumer_worker /x.json", "consumer_worker"),
        ("/venv/bin/python3 -m pyspark.daemon pyspark.worker", "daemon"),
        ("/usr/bin/java -Xmx400m kafka.Kafka server.properties", "java"),
    ],
)
def test_the_role_of_a_process_is_its_program(command: str, role: str) -> None:
    assert role_of(command) == role


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_watch_measures_the_processes_of_processes() -> None:
    nested = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE) as process:
        watch, deadline = Watch(os.getpid()), time.monotonic() + 60
        while sum(use.role.startswith("python") for use in watch.uses.values()) < 2:
            assert time.monotonic() < deadline
            watch.look()
        assert process.stdin is not None
        process.stdin.close()
    for use in watch.uses.values():
        assert use.descriptors >= 3 or not use.role.startswith("python")
    assert watch.judge() == []
    assert all(count >= 1 and kib > 0 for count, kib, _, _ in watch.summary().values())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_has_ended_keeps_its_measurements() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    watch, deadline = Watch(os.getpid()), time.monotonic() + 60
    while process.pid not in watch.uses or watch.uses[process.pid].descriptors < 3:
        assert time.monotonic() < deadline
        watch.look()
    role = watch.uses[process.pid].role
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    watch.look()
    assert watch.uses[process.pid].role == role != ""
    assert process.wait() == 1  # EOFError


def logged(minute: int, message: str, count: int) -> list[str]:
    return [
        f"2026-11-27 16:{minute:02}:{at % 60:02},123 WARNING x {message.replace('{}', str(at))}"
        for at in range(count)
    ]


def test_a_message_that_is_logged_often_within_a_minute_is_reported() -> None:
    lines = logged(1, "broker {} of 0x7f{}: cannot be reached", 121)
    assert repeated(lines) == [
        "logged 121 times in a minute: WARNING x broker # of #: cannot be reached"
    ]


def test_other_messages_and_other_minutes_count_for_themselves() -> None:
    lines = [
        *logged(1, "broker {} left", 120),
        *logged(2, "broker {} left", 120),
        *logged(2, "broker {} came", 120),
        "Traceback (most recent call last):",
    ]
    assert repeated(lines) == []
