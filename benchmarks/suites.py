"""The table of what is measured: one `Row` a line of the report, one `Suite` a comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One client doing a suite's work; ``options`` override the suite's own."""

    label: str
    client: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suite:
    """A comparison whose rows are run interleaved; ``reference`` is the row ratios are taken to."""

    name: str
    title: str
    rows: tuple[Row, ...]
    options: dict[str, Any] = field(default_factory=dict)
    reads: bool = False
    reference: str = "confluent"


def _produce(name: str, title: str, **options: Any) -> Suite:
    return Suite(
        name,
        title,
        (
            Row("aiokafka_lite", "ours", "produce"),
            Row("aiokafka_lite, uvloop", "ours", "produce", {"loop": "uvloop"}),
            Row("confluent", "confluent", "produce"),
            Row("aiokafka", "aiokafka_peer", "produce", {"records": 200_000}),
        ),
        {"records": 500_000, **options},
    )


def _send_and_wait(tasks: int, records: int) -> Suite:
    return Suite(
        f"tasks-{tasks}",
        f"send_and_wait from {tasks:,} tasks, 100 B, linger 0",
        (
            Row("aiokafka_lite", "ours", "send_and_wait"),
            Row("aiokafka_lite, uvloop", "ours", "send_and_wait", {"loop": "uvloop"}),
            Row("aiokafka", "aiokafka_peer", "send_and_wait", {"records": records // 4}),
            Row(
                "aiokafka, uvloop",
                "aiokafka_peer",
                "send_and_wait",
                {"loop": "uvloop", "records": records // 4},
            ),
        ),
        {"records": records, "tasks": tasks},
        reference="aiokafka",
    )


def _consume(name: str, title: str, kind: str, **options: Any) -> Suite:
    return Suite(
        name,
        title,
        (
            Row("aiokafka_lite", "ours", kind),
            Row("aiokafka_lite, uvloop", "ours", kind, {"loop": "uvloop"}),
            Row("confluent", "confluent", kind),
            Row("aiokafka", "aiokafka_peer", kind, {"records": 300_000}),
        ),
        {"records": 1_000_000, **options},
        reads=True,
    )


SUITES = (
    _produce("produce-16k", "produce 100 B, 16 KiB batches, linger 5 ms, acks=all"),
    _produce("produce-128k", "produce 100 B, 128 KiB batches", batch_size=131072),
    _produce("produce-lz4", "produce 100 B, 16 KiB batches, lz4", compression="lz4"),
    _produce(
        "produce-1k",
        "produce 1 KiB, 128 KiB batches",
        size=1024,
        batch_size=131072,
        records=200_000,
    ),
    _produce("produce-1k-16k", "produce 1 KiB, 16 KiB batches", size=1024, records=200_000),
    _produce("produce-one", "produce 100 B to one partition, 16 KiB batches", partitions=1),
    Suite(
        "produce-hot",
        "produce 100 B to 10 partitions in turn, of 10 and of 10,000",
        (
            Row("of 10", "ours", "produce", {"partitions": 10}),
            Row("of 10,000", "ours", "produce", {"partitions": 10_000}),
        ),
        {"records": 500_000, "hot": 10},
        reference="of 10",
    ),
    Suite(
        "senders",
        "send from 10,000 tasks in turn, 100 B: the latency of send itself",
        (
            Row("aiokafka_lite", "ours", "senders"),
            Row("aiokafka_lite, uvloop", "ours", "senders", {"loop": "uvloop"}),
        ),
        {"records": 200_000, "tasks": 10_000},
        reference="aiokafka_lite",
    ),
    _send_and_wait(1, 2_000),
    _send_and_wait(10, 20_000),
    _send_and_wait(100, 60_000),
    _send_and_wait(1000, 100_000),
    _send_and_wait(10_000, 200_000),
    Suite(
        "idle",
        "one record at a time, 2 ms apart, linger 0",
        (
            Row("aiokafka_lite", "ours", "idle"),
            Row("aiokafka_lite, uvloop", "ours", "idle", {"loop": "uvloop"}),
            Row("confluent", "confluent", "idle"),
            Row("aiokafka", "aiokafka_peer", "idle"),
            Row("floor", "floor", "idle"),
            Row("floor, uvloop", "floor", "idle", {"loop": "uvloop"}),
        ),
        {"records": 1000},
        reference="floor",
    ),
    _consume("consume-iter", "consume 100 B, one by one (async for / poll)", "consume_iter"),
    _consume("consume-lists", "consume 100 B, lists of up to 500", "consume_lists"),
    _consume(
        "consume-lists-lz4",
        "consume 100 B, lists of up to 500, lz4",
        "consume_lists",
        compression="lz4",
    ),
    _consume(
        "consume-iter-1k", "consume 1 KiB, one by one", "consume_iter", size=1024, records=300_000
    ),
)
