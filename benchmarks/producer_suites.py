"""Suites of the producer (bars: issue 5, "Speed")."""

from __future__ import annotations

from typing import Any

from .suite import OURS, UVLOOP, Bar, Row, Suite

AIOPRODUCER = "AIOProducer and a poller"


def _produce(
    name: str, title: str, of_confluent: float, of_aiokafka: float | None = None, **options: Any
) -> Suite:
    bars = [Bar("cpu_us", of_confluent, of="confluent")]
    if of_aiokafka is not None:
        bars.append(Bar("cpu_us", of_aiokafka, of="aiokafka"))
    return Suite(
        name,
        title,
        (
            Row(OURS, "ours", "produce"),
            Row(UVLOOP, "ours", "produce", {"loop": "uvloop"}),
            Row("confluent", "confluent", "produce"),
            Row("aiokafka", "aiokafka_peer", "produce", {"records": 200_000}),
        ),
        {"records": 500_000, **options},
        bars=tuple(bars),
    )


def _send_and_wait(tasks: int, records: int, *bars: Bar, beside: tuple[Row, ...] = ()) -> Suite:
    fewer = min(records // 4, 50_000)  # for a client that needs 0.25 ms per record
    counted = "1 task" if tasks == 1 else f"{tasks:,} tasks"
    return Suite(
        f"tasks-{tasks}",
        f"send_and_wait from {counted}, 100 B, linger 0",
        (
            Row(OURS, "ours", "send_and_wait"),
            Row(UVLOOP, "ours", "send_and_wait", {"loop": "uvloop"}),
            Row("aiokafka", "aiokafka_peer", "send_and_wait", {"records": fewer}),
            Row(
                "aiokafka, uvloop",
                "aiokafka_peer",
                "send_and_wait",
                {"loop": "uvloop", "records": fewer},
            ),
            *beside,
        ),
        {"records": records, "tasks": tasks},
        reference="aiokafka",
        bars=bars,
    )


PRODUCER_SUITES = (
    _produce("produce-16k", "produce 100 B, 16 KiB batches, linger 5 ms, acks=all", 0.40, 0.09),
    _produce("produce-128k", "produce 100 B, 128 KiB batches", 0.35, batch_size=131072),
    _produce("produce-lz4", "produce 100 B, 16 KiB batches, lz4", 0.45, compression="lz4"),
    _produce(
        "produce-1k",
        "produce 1 KiB, 128 KiB batches",
        0.45,
        size=1024,
        batch_size=131072,
        records=200_000,
    ),
    _produce("produce-1k-16k", "produce 1 KiB, 16 KiB batches", 0.5, size=1024, records=200_000),
    _produce("produce-one", "produce 100 B to one partition, 16 KiB batches", 0.45, partitions=1),
    Suite(
        "produce-hot",
        "produce 100 B to 10 partitions in turn, in topics of 10 and 10,000 partitions",
        (
            Row("topic of 10", "ours", "produce", {"partitions": 10}),
            Row("topic of 10,000", "ours", "produce", {"partitions": 10_000}),
        ),
        {"records": 500_000, "hot": 10},
        reference="topic of 10",
        bars=(Bar("cpu_us", 1.2, of="topic of 10", row="topic of 10,000"),),
    ),
    Suite(
        "senders",
        "send 100 B from 10,000 tasks in turn: latency of send itself",
        (
            Row(OURS, "ours", "senders"),
            Row(UVLOOP, "ours", "senders", {"loop": "uvloop"}),
        ),
        {"records": 200_000, "tasks": 10_000},
        reference=OURS,
        bars=(Bar("p999_ms", 0.05),),
    ),
    _send_and_wait(1, 2_000),
    _send_and_wait(10, 20_000),
    _send_and_wait(100, 60_000, Bar("cpu_us", 0.25, of="aiokafka")),
    _send_and_wait(
        1000,
        100_000,
        Bar("cpu_us", 0.15, of="aiokafka"),
        Bar("cpu_us", 0.10, of="aiokafka", row=UVLOOP),
        Bar("p99_ms", 8.0),
    ),
    _send_and_wait(
        10_000,
        1_000_000,  # 100 per task, as above: creating a task is not the producer's cost
        Bar("cpu_us", 0.20, of=AIOPRODUCER),
        Bar("p99_ms", 60.0),
        beside=(Row(AIOPRODUCER, "confluent", "send_and_wait", {"records": 50_000}),),
    ),
    Suite(
        "idle",
        "one record at a time, 2 ms apart, linger 0",
        (
            Row(OURS, "ours", "idle"),
            Row(UVLOOP, "ours", "idle", {"loop": "uvloop"}),
            Row("confluent", "confluent", "idle"),
            Row("aiokafka", "aiokafka_peer", "idle"),
            Row("floor", "floor", "idle"),
            Row("floor, uvloop", "floor", "idle", {"loop": "uvloop"}),
        ),
        {"records": 1000},
        reference="floor",
        bars=(
            Bar("p50_ms", 1.1, of="floor"),
            Bar("p99_ms", 1.0, of="floor", more=0.15),
            Bar("cpu_us", 1.2, of="floor"),
        ),
    ),
    Suite(
        "cold-produce",
        "a new process: from the import to the first acknowledged record",
        (
            Row(OURS, "cold_start", "ours_first_ack"),
            Row("confluent", "cold_start", "confluent_first_ack"),
            Row("aiokafka", "cold_start", "aiokafka_first_ack"),
        ),
        {"records": 1000},
        figure="cold_ms",
        bars=(Bar("cold_ms", 1.0, of="confluent"), Bar("cold_ms", 1.0, of="aiokafka")),
    ),
)
