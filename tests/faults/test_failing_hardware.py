"""Each fault of the brokers' hardware hits its intended target, on three real brokers."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aiokafka_lite import AIOKafkaAdminClient, AIOKafkaConsumer, AIOKafkaProducer
from tests.faults import clock_shift, small_disk
from tests.faults.clock_shift import WallClock
from tests.faults.small_disk import SmallDisk
from tests.faults.stages import Real, real_stage
from tools.kafka.wire import ask_metadata

CONFIG = {"min.insync.replicas": 2, "broker.session.timeout.ms": 4000}
TOPIC, PARTITIONS = "orders", 6
WITHIN = 60.0  # seconds until a condition holds

real = pytest.mark.real
needs_clock = pytest.mark.skipif(
    clock_shift.missing() is not None, reason=str(clock_shift.missing())
)
needs_disk = pytest.mark.skipif(small_disk.missing() is not None, reason=str(small_disk.missing()))


class Traffic:
    """A producer that numbers its records, and retries each until it is acknowledged."""

    def __init__(self, stage: Real) -> None:
        self.acknowledged: dict[int, set[bytes]] = {number: set() for number in range(PARTITIONS)}
        self._servers = stage.bootstrap_servers
        self._end = asyncio.Event()

    async def run(self) -> None:
        number = 0
        async with AIOKafkaProducer(
            bootstrap_servers=self._servers,
            request_timeout_ms=3_000,
            delivery_timeout_ms=120_000,
            metadata_max_age_ms=5_000,
        ) as producer:
            while not self._end.is_set():
                values = [b"%d" % (number + each) for each in range(PARTITIONS)]
                acks = [
                    await producer.send(TOPIC, value, partition=partition)
                    for partition, value in enumerate(values)
                ]
                for partition, ack in enumerate(acks):
                    await ack
                    self.acknowledged[partition].add(values[partition])
                number += PARTITIONS
                await asyncio.sleep(0.02)

    def end(self) -> None:
        self._end.set()

    async def stored(self) -> dict[int, list[bytes]]:
        """Everything in the topic."""
        found: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        async with AIOKafkaConsumer(
            TOPIC, bootstrap_servers=self._servers, auto_offset_reset="earliest"
        ) as consumer:
            ends = await consumer.end_offsets(consumer.assignment())
            while sum(map(len, found.values())) < sum(ends.values()):
                for tp, records in (await consumer.getmany(timeout_ms=1000)).items():
                    found[tp.partition] += [record.value or b"" for record in records]
        return found


@asynccontextmanager
async def traffic() -> AsyncIterator[Real]:
    """A stage under load; at the end each acknowledged record is stored once."""
    async with real_stage(1, CONFIG, heap="256m", failing_hardware=True) as stage:
        await asyncio.to_thread(stage.kafka.create_topic, TOPIC, PARTITIONS)
        stage.topics = [TOPIC]
        load = Traffic(stage)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            await until(lambda: all(load.acknowledged.values()))
            yield stage
            before = {number: len(values) for number, values in load.acknowledged.items()}
            await until(
                lambda: all(len(load.acknowledged[n]) > count + 5 for n, count in before.items())
            )
            load.end()
        for partition, values in (await load.stored()).items():
            assert len(set(values)) == len(values)
            assert load.acknowledged[partition] <= set(values)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        await asyncio.sleep(0.1)


def leaders(stage: Real, node: int) -> set[int]:
    """The leaders of the topic as one broker sees them, without any proxy."""
    found = ask_metadata(stage.kafka.address(node), TOPIC, version=1).topics[TOPIC][1]
    return set(found.values())


@real
@pytest.mark.long
async def test_an_isolated_broker_loses_its_leaderships_and_does_not_notice() -> None:
    async with traffic() as stage:
        assert leaders(stage, 0) == {0, 1, 2}
        isolated = asyncio.create_task(stage.isolate(0, 25.0))
        await until(lambda: leaders(stage, 1) == {1, 2} == leaders(stage, 2))
        # It runs, and responds to reachable clients; nothing has reached it since.
        assert not isolated.done()
        assert leaders(stage, 0) == {0, 1, 2}
        await isolated
        await until(lambda: leaders(stage, 0) <= {1, 2})


@real
@pytest.mark.long
async def test_reassigned_partitions_leave_the_broker_and_come_back_whole() -> None:
    async with (
        traffic() as stage,
        AIOKafkaAdminClient(bootstrap_servers=stage.bootstrap_servers) as admin,
    ):
        replicas: list[dict[int, list[int]]] = []

        async def look() -> None:
            while True:
                (topic,) = await admin.describe_topics([TOPIC])
                replicas.append({p["partition"]: p["replicas"] for p in topic["partitions"]})
                await asyncio.sleep(0.1)

        looking = asyncio.create_task(look())
        await stage.reassign(2, 2.0)
        looking.cancel()
        await asyncio.wait([looking])
        moved = {p for seen in replicas for p, nodes in seen.items() if 2 not in nodes}
        assert len(moved) >= 1
        (topic,) = await admin.describe_topics([TOPIC])
        for partition in topic["partitions"]:
            assert sorted(partition["replicas"]) == [0, 1, 2]
            if partition["partition"] in moved:
                assert partition["replicas"][-1] == 2
        assert not await admin.list_partition_reassignments()


@real
@needs_disk
@pytest.mark.long
async def test_a_full_disk_takes_half_of_the_logs_offline_until_the_broker_restarts() -> None:
    async with traffic() as stage:
        filled = asyncio.create_task(stage.fill_disk(1, 12.0))
        await until(lambda: "No space left on device" in stage.kafka.log(1))
        await until(lambda: "Stopping serving logs in dir" in stage.kafka.log(1))
        assert stage.kafka.running(1)
        await filled
        assert stage.hardware.disks[1].free > 1 << 20


@real
@needs_clock
@pytest.mark.long
async def test_the_log_of_a_broker_jumps_with_its_clock() -> None:
    def hour(node: int) -> str:
        return stage.kafka.log(node).splitlines()[-1][:13]

    async with traffic() as stage:
        clock, before = stage.hardware.clocks[0], hour(0)
        clock.jump_to(3600.0)
        await asyncio.to_thread(stage.kafka.stop, 0)
        await asyncio.to_thread(stage.kafka.start, 0)
        assert hour(0) > before
        clock.jump_to(0.0)


SAYS = """
import time
wall, monotonic = time.time(), time.monotonic()
print("ready", flush=True)
input()
print(time.time() - wall, time.monotonic() - monotonic)
"""


@needs_clock
@pytest.mark.parametrize("seconds", [-600.0, 600.0])
def test_the_wall_clock_of_a_process_jumps_and_its_monotonic_clock_does_not(
    tmp_path: Path, seconds: float
) -> None:
    clock = WallClock(tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-c", SAYS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **clock.environment},
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        clock.jump_to(seconds)
        process.stdin.write("\n")
        process.stdin.close()
        wall, monotonic = map(float, process.stdout.readline().split())
    assert abs(wall - seconds - monotonic) < 1
    assert 0 <= monotonic < 100


@needs_disk
def test_a_full_disk_refuses_bytes_until_it_is_emptied(tmp_path: Path) -> None:
    with SmallDisk(tmp_path, 64 << 20) as disk:
        (tmp_path / "log").write_bytes(b"x" * 100_000)
        disk.fill()
        with pytest.raises(OSError, match="No space left on device"):
            (tmp_path / "more").write_bytes(b"x" * 100_000)
        (tmp_path / "more").unlink()
        disk.empty()
        (tmp_path / "more").write_bytes(b"x" * 100_000)
        assert (tmp_path / "log").read_bytes() == b"x" * 100_000
    assert list(tmp_path.iterdir()) == []
