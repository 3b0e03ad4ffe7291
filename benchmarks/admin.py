"""Measures the admin client with many groups and many partitions, with its own real Kafka.

    python -m benchmarks.admin                       both parts
    python -m benchmarks.admin groups --rounds 7
    python -m benchmarks.admin partitions --partitions 5000

- groups: lists and describes 10,000 groups and fetches their offsets, in turns with Java's Admin on
  the same broker. The measure is wall-clock time, because a caller waits for the result. Both
  clients run in processes that have done the same work before, so that Java's compiler can warm up.
  Then the part measures how long the calls block the event loop, as below.
- partitions: describes 20,000 partitions with each call that can describe them. The measure is the
  maximum CPU of the event loop's thread between two ticks of one millisecond. The targets apply
  after gc.freeze(), because a full collection of all other objects takes 12 to 23 ms by itself.

The exit status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    ConsumerGroupDescription,
    GroupListing,
    GroupOffsets,
    NewPartitions,
    NewTopic,
    Results,
)
from aiokafka_lite.structs import TopicPartition
from tools.kafka import KafkaCluster, jars, jvm
from tools.kafka.releases import NEWEST

from .loop_watch import Watch

OF_JAVA = 1.3
BLOCKED = 0.010  # CPU seconds of the event loop's thread
OFFSETS = 3  # partitions with a committed offset, per group
MAKERS = 20  # clients that create groups: a broker serves one request per connection at a time
TOPIC_AT_ONCE = 5_000  # partitions; a controller writes at most 10,000 records per request
JAVA = Path(__file__).parent / "java" / "AdminGroups.java"

Counts = tuple[int, int, int]
"""Numbers of listed groups, groups described as empty, and fetched offsets."""


# --- groups


async def make_groups(servers: str, count: int) -> None:
    names = iter([f"bench-group-{number}" for number in range(count)])
    offsets = {TopicPartition("bench-groups", number): 0 for number in range(OFFSETS)}

    async def make() -> None:
        async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
            for name in names:
                result = await admin.alter_consumer_group_offsets(name, offsets)
                result.raise_for_errors()

    async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic("bench-groups", OFFSETS, 1)], raise_errors=True)
        await admin.wait_for_topics({"bench-groups": OFFSETS})
    async with asyncio.TaskGroup() as tasks:
        for _ in range(MAKERS):
            tasks.create_task(make())


Found = tuple[
    list[GroupListing], Results[str, ConsumerGroupDescription], Results[str, GroupOffsets]
]


async def look(admin: AIOKafkaAdminClient) -> Found:
    """List all groups, describe them and fetch their offsets."""
    listed = (await admin.list_groups()).raise_for_errors()
    names = [each.group_id for each in listed]
    described = await admin.describe_consumer_groups(listed, typed=True)
    return listed, described, await admin.list_consumer_groups_offsets(names)


async def ours(admin: AIOKafkaAdminClient) -> tuple[float, Counts]:
    """Return the milliseconds of one round, and its counts."""
    began = time.perf_counter()
    listed, described, fetched = await look(admin)
    empty = sum(each.state == "Empty" for each in described.raise_for_errors().values())
    offsets = sum(len(each.raise_for_errors()) for each in fetched.raise_for_errors().values())
    return (time.perf_counter() - began) * 1e3, (len(listed), empty, offsets)


@contextmanager
def java(servers: str) -> Iterator[Callable[[], tuple[float, Counts]]]:
    """Start Java's Admin; yield a function that runs one round."""
    flags = jvm.options(NEWEST, quick=False)
    command = [jars.java(), *flags, "-Dorg.apache.logging.log4j.level=OFF"]
    command += ["-cp", jars.class_path(), str(JAVA), servers]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn() -> tuple[float, Counts]:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the process has no pipes")
        process.stdin.write("\n")
        process.stdin.flush()
        figures = process.stdout.readline().split()
        if not figures:
            raise SystemExit("Java's Admin failed")
        groups, empty, offsets = map(int, figures[1:])
        return float(figures[0]), (groups, empty, offsets)

    try:
        yield turn
    finally:
        process.communicate(timeout=60)


async def groups(servers: str, count: int, rounds: int) -> bool:
    async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
        await make_groups(servers, count)
        times: dict[str, list[float]] = {"aiokafka_lite": [], "Java's Admin": []}
        wanted = (count, count, count * OFFSETS)
        with java(servers) as java_turn:
            for number in range(rounds + 1):
                found = {
                    "aiokafka_lite": await ours(admin),
                    "Java's Admin": await asyncio.to_thread(java_turn),
                }
                for client, (milliseconds, counts) in found.items():
                    if counts != wanted:
                        raise SystemExit(f"{client} found {counts}, expected {wanted}")
                    times[client].append(milliseconds)
                    print(f"#   round {number}, {client}: {milliseconds:.0f} ms", flush=True)
        gc.collect()
        gc.freeze()  # as a service does once it has started
        blocked = [await blocked_by(lambda: look(admin)) for _ in range(rounds)]
        gc.unfreeze()
    medians = {client: statistics.median(each[1:]) for client, each in times.items()}
    for client, each in times.items():
        print(f"{client}: {medians[client]:.0f} ms (first round: {each[0]:.0f} ms)")
    share = medians["aiokafka_lite"] / medians["Java's Admin"]
    met = share <= OF_JAVA
    print(f"{'met   ' if met else 'MISSED'} {count} groups: at most {OF_JAVA} of Java: {share:.2f}")
    cpu = statistics.median(each[0] for each in blocked)
    fine = cpu <= BLOCKED * 1e3
    print(f"{'met   ' if fine else 'MISSED'} {count} groups: event loop blocked {cpu:.1f} ms")
    return met and fine


# --- partitions


async def make_topics(admin: AIOKafkaAdminClient, partitions: int) -> dict[str, list[str]]:
    """Create one large topic and many small ones; return the topic names by shape.

    The large topic has half of the partitions, and the small topics have the rest.
    """
    half = partitions // 2
    await admin.create_topics(
        [NewTopic("bench-large", min(half, TOPIC_AT_ONCE), 1)], raise_errors=True
    )
    for count in range(2 * TOPIC_AT_ONCE, half + TOPIC_AT_ONCE, TOPIC_AT_ONCE):
        await admin.create_partitions({"bench-large": NewPartitions(min(count, half))})
    many = [f"bench-{number:04}" for number in range(half // 50)]
    for start in range(0, len(many), 50):
        new = [NewTopic(name, 50, 1) for name in many[start : start + 50]]
        await admin.create_topics(new, raise_errors=True, timeout_ms=120_000)
    await admin.wait_for_topics(
        {"bench-large": half, **dict.fromkeys(many, 50)}, timeout_ms=300_000
    )
    return {"one topic": ["bench-large"], "many topics": many, "all": ["bench-large", *many]}


async def blocked_by(call: Callable[[], Awaitable[object]]) -> tuple[float, float, float]:
    """Run a call; return ms: (maximum CPU between two ticks, maximum tick delay, duration)."""
    watch = Watch()
    await asyncio.sleep(0.01)
    watch.reset()
    began = time.perf_counter()
    await call()
    took = time.perf_counter() - began
    await asyncio.sleep(0.01)  # work after the call, such as a collection, counts, too
    figures = watch.blocked * 1e3, watch.late * 1e3, took * 1e3
    watch.stop()
    return figures


async def partitions(servers: str, count: int, rounds: int) -> bool:
    async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
        shapes = await make_topics(admin, count)
        everything = shapes["all"]
        described = (await admin.describe_topics(everything, typed=True)).raise_for_errors()
        if (found := sum(len(each.partitions) for each in described.values())) != count:
            raise SystemExit(f"{found} partitions were described, expected {count}")
        del described
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "list_topics()": admin.list_topics,
            "describe_topics()": admin.describe_topics,
            "describe_topics(typed=True)": lambda: admin.describe_topics(typed=True),
            "describe_topics(names)": lambda: admin.describe_topics(everything),
            "describe_topics(names, typed=True)": lambda: admin.describe_topics(
                everything, typed=True
            ),
            "describe_topics([large])": lambda: admin.describe_topics(shapes["one topic"]),
            "describe_topics([large], typed=True)": lambda: admin.describe_topics(
                shapes["one topic"], typed=True
            ),
            "wait_for_topics": lambda: admin.wait_for_topics(everything),
        }
        met = True
        for name, call in calls.items():
            figures = [await blocked_by(call) for _ in range(rounds)]
            with_collections = statistics.median(each[0] for each in figures)
            gc.collect()
            gc.freeze()  # as a service does once it has started
            figures = [await blocked_by(call) for _ in range(rounds)]
            gc.unfreeze()
            cpu, wall, took = (statistics.median(each) for each in zip(*figures, strict=True))
            judged = "describe" in name
            line = f"{name}: {cpu:.1f} ms (wall clock {wall:.1f}, whole call {took:.0f};"
            line += f" without gc.freeze() {with_collections:.1f})"
            if judged:
                fine = cpu <= BLOCKED * 1e3
                met = met and fine
                line = f"{'met   ' if fine else 'MISSED'} {line}"
            print(line, flush=True)
    return met


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.admin", description=__doc__)
    parser.add_argument("parts", nargs="*", help="groups, partitions (default: both)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--bootstrap", help="measure this broker, which must have no groups")
    asked = parser.parse_args()
    chosen = asked.parts or ["groups", "partitions"]
    met = True
    for part in chosen:
        with KafkaCluster(nodes=1, quick=False, heap="2g") as cluster:
            servers = asked.bootstrap or cluster.bootstrap_servers
            print(f"# {part}: Apache Kafka {cluster.version}, {os.cpu_count()} cores", flush=True)
            if part == "groups":
                met = asyncio.run(groups(servers, asked.groups, asked.rounds)) and met
            elif part == "partitions":
                met = asyncio.run(partitions(servers, asked.partitions, asked.rounds)) and met
            else:
                raise SystemExit(f"unknown part {part!r}")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
