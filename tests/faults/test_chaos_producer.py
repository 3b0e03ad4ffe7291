"""Chaos on three real brokers: no acknowledged record is lost, duplicated or out of order.

Brokers are killed, paused, deposed; topics grow; proxies cut, delay and stall the connections; and
producers with many settings start and stop meanwhile. At the end aiokafka reads everything (this
package's consumer does if aiokafka is not installed), the ledger judges it record by record, and
Java counts it.

CHAOS_SEED repeats a schedule; CHAOS_MINUTES (0.2 by default) is the duration, CHAOS_RATE the number
of records sent per second, and CHAOS_SENDERS the number of senders. `make chaos-producer SEED=7
MINUTES=5`.
"""

import asyncio
import contextlib
import gc
import os
import time
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.faults.acts import SMALL_MESSAGES, LogCounter, acts, perform
from tests.faults.ledger import Ledger
from tests.faults.schedule import Happenings, cluster_faults, play, wire_faults
from tests.faults.stages import Real, real_stage
from tools.kafka.java import JavaTools

SEED = int(os.environ.get("CHAOS_SEED", "1"))
MINUTES = float(os.environ.get("CHAOS_MINUTES", "0.2"))
RATE = float(os.environ.get("CHAOS_RATE", "4000"))
SENDERS = int(os.environ.get("CHAOS_SENDERS", "1500"))
TOPICS = {"orders": 3, "payments": 5, "events": 6}
ENOUGH = 0.1 * RATE * MINUTES * 60  # records acknowledged, however long that takes

LONG = MINUTES >= 2
SHORT = MINUTES < 0.3

REQUEST_TIMEOUT = 3.0
DELIVERY_TIMEOUT = 45.0
LONGEST = 20.0 if LONG else 4.0 if SHORT else 8.0  # seconds that a fault lasts
ACT = 25.0 if LONG else 6.0 if SHORT else 12.0  # seconds
LINES_A_MINUTE = 600  # of the log, at INFO and above: one per event, not one per record

try:
    from aiokafka import AIOKafkaConsumer as _Consumer
except ImportError:
    from aiokafka_lite import AIOKafkaConsumer as _Consumer

pytestmark = [pytest.mark.real, pytest.mark.timeout(MINUTES * 120 + 400)]


class _Values:
    """(offset, value) of a partition, in the little memory that millions of them should take."""

    def __init__(self) -> None:
        self._offsets = array("q")
        self._ends = array("q")
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, offset: int, value: bytes) -> None:
        self._offsets.append(offset)
        self._bytes += value
        self._ends.append(len(self._bytes))

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        start = 0
        for offset, end in zip(self._offsets, self._ends, strict=True):
            yield offset, bytes(self._bytes[start:end])
            start = end


async def read_all(bootstrap_servers: str, topics: Sequence[str]) -> dict[str, dict[int, _Values]]:
    """Every record, read by a different client from the one that wrote it, if there is one."""
    found: dict[str, dict[int, _Values]] = {}
    for topic in topics:
        consumer: Any = _Consumer(
            topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            partitions = consumer.assignment()
            ends = await consumer.end_offsets(partitions)
            values = found[topic] = {tp.partition: _Values() for tp in partitions}
            while sum(map(len, values.values())) < sum(ends.values()):
                for tp, records in (await consumer.getmany(timeout_ms=1000)).items():
                    add = values[tp.partition].add
                    for record in records:
                        add(record.offset, record.value)
        finally:
            # aiokafka's `stop` cancels a fetch that pauses after an error, and lets its
            # CancelledError pass.
            with contextlib.suppress(asyncio.CancelledError):
                await consumer.stop()
    return found


async def play_all(stage: Real, ledger: Ledger, happenings: Happenings) -> None:
    """Run the schedule and the acts concurrently until the time is up and enough is
    acknowledged."""
    nodes = stage.kafka.node_ids
    end, loop = asyncio.Event(), asyncio.get_running_loop()
    deadline = loop.time() + MINUTES * 60
    async with asyncio.TaskGroup() as group:
        for faults in (
            cluster_faults(SEED, nodes, LONGEST, 3.0),
            wire_faults(SEED, nodes, LONGEST / 2, 3.0),
        ):
            group.create_task(play(stage, faults, end, happenings))
        for act in acts(SEED, ACT):
            await perform(
                act,
                stage.bootstrap_servers,
                ledger,
                list(TOPICS),
                happenings,
                rate=RATE,
                senders=SENDERS,
                seed=SEED,
                request_timeout=REQUEST_TIMEOUT,
                delivery_timeout=DELIVERY_TIMEOUT,
            )
            if loop.time() > deadline and ledger.counts()["ACKED"] > ENOUGH:
                break
        end.set()


async def produce_and_judge(stage: Real, happenings: Happenings) -> list[str]:
    """Create the topics, play all acts, and read everything; return the problems."""
    ledger = Ledger()
    for topic, partitions in TOPICS.items():
        config = SMALL_MESSAGES if topic == "events" else None
        await asyncio.to_thread(stage.kafka.create_topic, topic, partitions, None, config)
    stage.topics = list(TOPICS)
    with LogCounter() as logs:
        began = time.monotonic()
        await play_all(stage, ledger, happenings)
        minutes = (time.monotonic() - began) / 60
    happenings.tell(
        f"the end after {minutes:.1f} minutes: {dict(happenings.count)}, {stage.cuts} cuts; "
        f"{ledger.counts()}; {dict(ledger.errors)}"
    )
    for line, count in logs.lines.most_common(12):
        print(f"{count:8} x {line}")
    stored = await read_all(stage.kafka.bootstrap_servers, list(TOPICS))
    java = JavaTools(stage.kafka.bootstrap_servers)
    wrong = []
    for topic, partitions_read in stored.items():
        counted = await asyncio.to_thread(java.digest, topic)
        read = {p: len(values) for p, values in partitions_read.items() if len(values)}
        by_java = {p: digest.count for p, digest in counted.items() if digest.count}
        if read != by_java:
            wrong.append(f"{topic}: {read} records were read by partition, Java counts {by_java}")
    total = sum(len(values) for log in stored.values() for values in log.values())
    wrong += ledger.judge(stored)
    happenings.tell(f"{total} records are stored; {len(wrong)} are wrong")
    wrong += [f"logged: {line}" for line in logs.critical]
    if sum(logs.lines.values()) >= LINES_A_MINUTE * minutes:
        wrong.append(f"too many log lines: {logs.lines}")
    counts = ledger.counts()
    if not counts["ACKED"] <= total <= counts["ACKED"] + counts["UNKNOWN"]:
        wrong.append(f"{total} records are stored, {counts}")
    return wrong


async def test_no_record_is_lost_duplicated_or_out_of_order() -> None:
    print(f"\nseed {SEED}, {MINUTES:g} minutes, {RATE:g} records/s, {SENDERS} senders")
    happenings = Happenings()
    async with real_stage(SEED) as stage:
        happenings.tell("the brokers are up")
        wrong = await produce_and_judge(stage, happenings)
    gc.collect()  # a client that was not closed would warn now, which is an error
    assert not wrong, "\n".join([f"{len(wrong)} in all", *wrong[:50]])
