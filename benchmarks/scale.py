"""Measures clients of a large cluster: 1,000 simulated brokers with 100,000 partitions.

    python -m benchmarks.scale                                   all parts
    python -m benchmarks.scale --brokers 100 --partitions 10000 --part consumer

The embedded broker simulates the cluster in its own process, and each part runs in another process.
The cluster responds more slowly than a real one, so wall-clock times are upper bounds; CPU and
memory are those of the client process.

- producer: from `start()` to the first acknowledged record, one topic of 1,000 partitions;
- consumer: from `start()` of a consumer of all partitions to its first record; its memory;
- group: `start()` of the only member of a group, classic and KIP-848;
- refresh: one metadata refresh of all partitions;
- leaders: from the move of 10,000 leaders at once until a record of each of ten moved partitions
  arrives;
- reading: CPU per record of ten partitions with traffic, while the consumer has all partitions, and
  while it has only these ten; without the CPU of idle fetches, two per second and broker.

`blocked` is the maximum CPU time of the event loop's thread between two ticks of a one-millisecond
timer, with and without Python's garbage collections, which visit every object of the process. The
exit status is 1 if a target is missed, collections included.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from .loop_watch import Watch

BLOCKED = 0.010  # CPU seconds of the event loop's thread
READING = 2.0  # CPU per record, relative to a consumer of ten partitions
ACTIVE = 10  # partitions with traffic
MOVED = 10_000
RECORDS = 100_000
OF_A_TOPIC = 1_000
LIMIT = 600.0  # timeout of a step, in seconds


class Cluster:
    """A process that simulates the cluster and executes one command at a time."""

    def __init__(self, brokers: int, topics: int, of_a_topic: int = OF_A_TOPIC) -> None:
        command = [sys.executable, "-m", "benchmarks.scale_cluster"]
        self._process = subprocess.Popen(
            [*command, str(brokers), str(topics), str(of_a_topic)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.bootstrap_servers = self._line()

    def ask(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline().strip()):
            raise SystemExit(f"The cluster exited with status {self._process.wait()}")
        return line

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def memory() -> float:
    """Return the resident memory of this process in MiB."""
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


class Step:
    """The cost of one step, in seconds.

    Attributes:
        cpu: CPU of this process.
        took: Wall-clock time.
        blocked: Maximum CPU of the event loop's thread between two ticks.
        without_gc: `blocked` without the time of the garbage collector.
    """

    cpu = took = blocked = without_gc = 0.0

    def __str__(self) -> str:
        blocked = f"{self.blocked * 1e3:.1f} ms ({self.without_gc * 1e3:.1f} without collections)"
        return f"{self.took:7.2f} s, CPU {self.cpu:7.2f} s, blocked {blocked}"


@asynccontextmanager
async def measured() -> AsyncIterator[Step]:
    step = Step()
    gc.collect()
    gc.freeze()  # as a service does once it has started
    watch = Watch()
    await asyncio.sleep(0.01)
    watch.reset()
    began, used = time.perf_counter(), time.process_time()
    try:
        async with asyncio.timeout(LIMIT):
            yield step
        await asyncio.sleep(0.01)
    finally:
        step.took, step.cpu = time.perf_counter() - began, time.process_time() - used
        step.blocked, step.without_gc = watch.blocked, watch.without_gc
        watch.stop()


def judge(name: str, step: Step, *, extra: str = "") -> bool:
    met = step.blocked <= BLOCKED
    print(f"{'met   ' if met else 'MISSED'} {name:24}{step}{extra}", flush=True)
    return met


async def producer(cluster: Cluster, topics: list[str]) -> bool:
    client = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    try:
        async with measured() as starting:
            await client.start()
        async with measured() as sending:
            await client.send_and_wait(topics[-1], b"x")
    finally:
        await client.stop()
    return judge("producer.start()", starting) & judge("first record sent", sending)


@asynccontextmanager
async def reader(
    cluster: Cluster, *topics: str, group: str | None = None, protocol: str = "classic"
) -> AsyncIterator[AIOKafkaConsumer]:
    client = AIOKafkaConsumer(
        *topics,
        group_id=group,
        group_protocol=protocol,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        request_timeout_ms=120_000,
    )
    try:
        yield client
    finally:
        await client.stop()


async def take(client: AIOKafkaConsumer, count: int) -> None:
    while count > 0:
        found = await client.getmany(timeout_ms=1000)
        count -= sum(map(len, found.values()))


async def consumer(cluster: Cluster, topics: list[str]) -> bool:
    before = memory()
    async with reader(cluster, *topics) as client:
        async with measured() as starting:
            await client.start()
        cluster.ask("write 1 1")
        async with measured() as reading:
            await client.getone()
        async with measured() as settling:
            await asyncio.sleep(10)
        each = (memory() - before) * 1024 / (len(topics) * OF_A_TOPIC)
        met = judge("consumer.start()", starting)
        met &= judge("first record read", reading, extra=f", {each:.2f} KiB per partition")
        return met & judge("ten idle seconds", settling)


async def group(cluster: Cluster, topics: list[str]) -> bool:
    met = True
    for protocol in ("classic", "consumer"):
        async with reader(cluster, *topics, group=protocol, protocol=protocol) as client:
            async with measured() as starting:
                await client.start()
            met &= judge(f"start(), {protocol} group", starting)
            async with measured() as settling:
                await asyncio.sleep(10)
            met &= judge("ten seconds after it", settling)
    return met


async def refresh(cluster: Cluster, topics: list[str]) -> bool:
    async with reader(cluster, *topics) as client:
        await client.start()
        await asyncio.sleep(5)
        async with measured() as refreshing:
            await client._client.force_metadata_update()
        return judge("metadata refresh", refreshing)


async def leaders(cluster: Cluster, topics: list[str]) -> bool:
    async with reader(cluster, *topics) as client:
        await client.start()
        cluster.ask(f"write {ACTIVE} {ACTIVE}")
        await take(client, ACTIVE)
        async with measured() as moving:
            await asyncio.to_thread(cluster.ask, f"move {MOVED}")
            await asyncio.to_thread(cluster.ask, f"write {ACTIVE} {ACTIVE}")
            await take(client, ACTIVE)
        return judge(f"{MOVED} leaders move", moving)


async def reading(cluster: Cluster, topics: list[str]) -> bool:
    spent: dict[str, float] = {}
    idling: dict[str, float] = {}
    for name in ("ten", "all"):
        async with reader(cluster, *(topics if name == "all" else [])) as client:
            if name == "ten":
                client.assign([TopicPartition("topic-0", number) for number in range(ACTIVE)])
            await client.start()
            await client.seek_to_end(*(TopicPartition("topic-0", n) for n in range(ACTIVE)))
            async with measured() as idle:
                await asyncio.sleep(5)
            client.pause(*client.assignment())
            await asyncio.to_thread(cluster.ask, f"write {RECORDS} {ACTIVE}")
            client.resume(*client.assignment())
            async with measured() as step:
                await take(client, RECORDS)
            idling[name] = idle.cpu / idle.took
            spent[name] = (step.cpu - idling[name] * step.took) / RECORDS * 1e6
    ratio = spent["all"] / spent["ten"]
    met = ratio <= READING
    figures = f"{spent['all']:.2f} us per record, {spent['ten']:.2f} with {ACTIVE} partitions"
    figures += f"; idle {idling['all']:.1%} of a core, {idling['ten']:.1%}"
    print(f"{'met   ' if met else 'MISSED'} {'reading':24}{ratio:.2f} ({figures})", flush=True)
    return met


PARTS: dict[str, Callable[[Cluster, list[str]], Awaitable[bool]]] = {
    each.__name__: each for each in (producer, consumer, group, refresh, leaders, reading)
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    arguments.add_argument("--brokers", type=int, default=1_000)
    arguments.add_argument("--partitions", type=int, default=100_000)
    arguments.add_argument("--part", action="append", choices=PARTS)
    given = arguments.parse_args()
    topics = [f"topic-{number}" for number in range(given.partitions // OF_A_TOPIC)]
    names = given.part or list(PARTS)
    if len(names) > 1:
        command = [sys.executable, "-m", "benchmarks.scale", "--brokers", str(given.brokers)]
        command += ["--partitions", str(given.partitions), "--part"]
        raise SystemExit(max([subprocess.call([*command, name]) for name in names]))
    cluster = Cluster(given.brokers, len(topics))
    try:
        met = asyncio.run(_run(PARTS[names[0]], cluster, topics))
    finally:
        cluster.close()
    raise SystemExit(0 if met else 1)


async def _run(
    part: Callable[[Cluster, list[str]], Awaitable[bool]], cluster: Cluster, topics: list[str]
) -> bool:
    return await part(cluster, topics)


if __name__ == "__main__":
    main()
