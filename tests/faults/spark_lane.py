"""A Spark stream that copies a topic exactly once, while its driver is killed and restarted.

The load writes each record's offset as its value. Each row of the copy names the partition and the
offset that it was read from. At the end every record was copied once, with its own value.
"""

import asyncio
import json
import math
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Final

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.errors import KafkaError
from tests.faults.consumer_journal import Place
from tests.faults.consumer_load import Load
from tests.faults.schedule import Happenings
from tests.faults.spark_driver import END
from tests.faults.stages import Real
from tools.kafka.process import Child
from tools.spark.session import missing

__all__ = ["judge_copies", "play_spark"]

SOURCE, SINK, PARTITIONS = "spark-input", "spark-output", 4
LATER: Final = (0.0, 45.0)  # seconds from a driver's first micro-batch until it is killed
CATCH_UP: Final = 900.0  # seconds until everything is copied, without further faults
ENDS_WITHIN: Final = 180.0  # seconds for a driver to end cleanly, on a busy machine
STUCK: Final = 300.0  # seconds without a new copy or faults
FAILURES: Final = 20  # drivers that ended by themselves; faults may outlast their timeouts
RATE: Final = 100  # records per second
COUNT_EVERY: Final = 5.0  # seconds
LOOK: Final = 1.0  # seconds between two checks of the driver


class Driver:
    """The driver's process, and its successors.

    Args:
        bootstrap: Of the cluster.
        folder: For the checkpoint and the logs.

    Attributes:
        events: Counts of starts, kills and failures.
    """

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._folder = folder
        given = {"bootstrap": bootstrap, "source": SOURCE, "sink": SINK, "folder": str(folder)}
        self._command = [sys.executable, "-m", "tests.faults.spark_driver", json.dumps(given)]
        self._child: Child | None = None
        self.events: Counter[str] = Counter()

    @property
    def batches(self) -> int:
        """The number of micro-batches that have ended."""
        return len(list(self._folder.glob("batches/*")))

    def start(self) -> None:
        """Start a driver on the checkpoint."""
        self.events["starts"] += 1
        # Spark's heartbeats use the wall clock: in a process whose clock jumps, they time out.
        environment = {"LD_PRELOAD": "", "TMPDIR": str(self._folder)}
        self._child = Child(self._command, self._folder / "driver.log", environment)

    def kill(self) -> None:
        """Send SIGKILL to the driver, its JVM and its workers."""
        if self._child is not None:
            self.events["kills"] += 1
            self._child.kill()
            self._child = None

    def tend(self) -> None:
        """Start a successor for a driver that ended by itself."""
        if self._child is not None and self._child.exit_status is not None:
            self.events["failures"] += 1
            self._child.kill()
            self.start()

    async def end(self) -> str | None:
        """Let the driver end cleanly; return the problem, or None."""
        (self._folder / END).touch()
        child = self._child
        if child is None:
            return None
        status = await asyncio.to_thread(child.wait, ENDS_WITHIN)
        if status == 0:
            return None
        return f"the driver ended with {status}: {child.tail(20)[-1500:]}"


async def play_spark(stage: Real, folder: Path, seed: int, happenings: Happenings) -> list[str]:
    """Write records for `CHAOS_MINUTES` while drivers copy them and are killed; check the copies.

    Args:
        stage: The brokers.
        folder: For files.
        seed: Of the times of kills.
        happenings: Counts "kill_driver".
    """
    reason = missing()
    if reason is not None:
        happenings.tell(f"Spark cannot run here: {reason}")
        return [reason]
    seconds = float(os.environ.get("CHAOS_MINUTES", "1")) * 60
    for topic in (SOURCE, SINK):
        await asyncio.to_thread(stage.kafka.create_topic, topic, PARTITIONS)
    servers, draw = stage.bootstrap_servers, random.Random(f"spark {seed}")
    driver = Driver(servers, folder)
    load = Load(servers, [SOURCE], rate=RATE, count=int(RATE * seconds))
    driver.start()
    try:
        writing = asyncio.create_task(load.run())
        kill_at, done = math.inf, 0
        while not writing.done():
            await asyncio.wait([writing], timeout=LOOK)
            driver.tend()
            if kill_at == math.inf and driver.batches > done:  # it has begun to work
                kill_at = time.monotonic() + draw.uniform(*LATER)
            if time.monotonic() > kill_at and not writing.done():
                happenings.tell("kill the driver")
                happenings.count["kill_driver"] += 1
                driver.kill()
                kill_at, done = math.inf, driver.batches
                driver.start()
        writing.result()
        happenings.tell(f"all {sum(load.ends.values())} records are written")
        wrong = await _until_copied(servers, sum(load.ends.values()), driver)
        problem = await driver.end()
        if problem is not None:
            wrong.append(problem)
    finally:
        driver.kill()
    if driver.events["failures"] > FAILURES:
        wrong.append(f"{driver.events['failures']} drivers ended by themselves")
    copies = [value async for value in _copies(servers)]
    happenings.tell(f"{len(copies)} copies; drivers: {dict(driver.events)}")
    return wrong + judge_copies(copies, load.ends)


async def _until_copied(servers: str, count: int, driver: Driver) -> list[str]:
    """Wait until this many records are in the sink; return the problem."""
    copied, moved_at, deadline = 0, time.monotonic(), time.monotonic() + CATCH_UP
    while copied < count:
        driver.tend()
        try:
            now = sum([1 async for _ in _copies(servers)])
        except KafkaError:
            now = copied
        if now > copied:
            copied, moved_at = now, time.monotonic()
        if time.monotonic() > min(deadline, moved_at + STUCK):
            return [f"only {copied} of {count} records are copied"]
        await asyncio.sleep(COUNT_EVERY)
    return []


async def _copies(servers: str) -> AsyncIterator[bytes]:
    """The values of all committed rows of the sink."""
    async with AIOKafkaConsumer(
        SINK,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        partitions = consumer.assignment()
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(tp) < ends[tp] for tp in partitions]):
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                for record in records:
                    yield record.value or b""


def judge_copies(copies: Iterable[bytes], ends: Mapping[Place, int]) -> list[str]:
    """The problems of the copies.

    Args:
        copies: Partition, offset and value of each, separated by spaces.
        ends: The number of the records of each partition of the source.
    """
    wrong, seen = [], Counter[tuple[int, int]]()
    for copy in copies:
        partition, offset, value = copy.split(b" ", 2)
        if value[:12] != b"%012d" % int(offset):
            wrong.append(f"the copy of {int(partition)}@{int(offset)} has the value {value[:20]!r}")
        seen[int(partition), int(offset)] += 1
    for (_, partition), end in ends.items():
        counts = [seen.pop((partition, offset), 0) for offset in range(end)]
        for what, number in (
            ("were not copied", counts.count(0)),
            ("were copied more than once", sum(count > 1 for count in counts)),
        ):
            if number:
                wrong.append(f"{number} of {end} records of partition {partition} {what}")
    if seen:
        wrong.append(f"{len(seen)} copies are of no record, such as {next(iter(seen))}")
    return wrong
