"""Suites of the consumer (bars: issue 6, "Speed")."""

from __future__ import annotations

from typing import Any

from .suite import OURS, UVLOOP, Bar, Row, Suite

BACKLOG = 2_000_000
MANY = 2_000


def _consume(
    name: str,
    title: str,
    kind: str,
    of_confluent: float,
    of_aiokafka: float | None = None,
    *bars: Bar,
    **options: Any,
) -> Suite:
    records = options.setdefault("records", 1_000_000)
    judged = [Bar("cpu_us", of_confluent, of="confluent"), *bars]
    if of_aiokafka is not None:
        judged.append(Bar("cpu_us", of_aiokafka, of="aiokafka"))
    return Suite(
        name,
        title,
        (
            Row(OURS, "ours", kind),
            Row(UVLOOP, "ours", kind, {"loop": "uvloop"}),
            Row("confluent", "confluent", kind),
            Row("aiokafka", "aiokafka_peer", kind, {"records": records * 3 // 10}),
        ),
        options,
        reads=True,
        bars=tuple(judged),
    )


def _three(kind: str, suffix: str = "", **options: Any) -> tuple[Row, ...]:
    return tuple(
        Row(label + suffix, client, kind, options)
        for label, client in (
            (OURS, "ours"),
            ("confluent", "confluent"),
            ("aiokafka", "aiokafka_peer"),
        )
    )


def _many(name: str, title: str, kind: str, *bars: Bar, **options: Any) -> Suite:
    """Return a suite with 2,000 assigned partitions, all empty except the hot one."""
    return Suite(
        name,
        f"2,000 partitions assigned: {title}",
        _three(kind),
        {"partitions": MANY, "hot": 1, "loaded": 300_000, **options},
        reads=True,
        bars=bars,
        figure="cpu_share" if kind == "many_idle" else "cpu_us",
        most_rounds=3,
    )


CONSUMER_SUITES = (
    _consume(
        "consume-iter", "consume 100 B, one by one (async for / poll)", "consume_iter", 0.2, 0.065
    ),
    _consume(
        "consume-lists",
        "consume 100 B, lists of up to 500",
        "consume_lists",
        0.3,
        0.17,
        Bar("rate", least=2_000_000),
    ),
    _consume(
        "consume-lists-lz4",
        "consume 100 B, lists of up to 500, lz4",
        "consume_lists",
        0.4,
        compression="lz4",
    ),
    _consume(
        "consume-iter-1k",
        "consume 1 KiB, one by one",
        "consume_iter",
        0.45,
        size=1024,
        records=300_000,
    ),
    _consume(
        "consume-lists-1k",
        "consume 1 KiB, lists of up to 500",
        "consume_lists",
        0.65,
        size=1024,
        records=300_000,
    ),
    Suite(
        "consume-bulk",
        "consume 100 B in bulk: cost of each API of aiokafka_lite",
        (
            Row(OURS, "ours", "consume_lists"),
            Row("batches()", "ours", "consume_batches"),
            Row("columns", "ours", "consume_columns"),
        ),
        {"records": 1_000_000},
        reads=True,
        reference=OURS,
        bars=(Bar("cpu_us", 0.1, row="columns"),),
    ),
    Suite(
        "round-trip",
        "produce and consume in one process, one record at a time, 2 ms apart, linger 0",
        (
            *_three("round_trip"),
            Row(UVLOOP, "ours", "round_trip", {"loop": "uvloop"}),
        ),
        {"records": 600},
        bars=(Bar("p50_ms", 1.1, of="confluent"),),
        figure="p50_ms",
    ),
    Suite(
        "steady",
        "produce and consume in one process, 5,000 records per second, linger 0",
        (
            *_three("steady"),
            Row(UVLOOP, "ours", "steady", {"loop": "uvloop"}),
        ),
        {"records": 10_000},
        bars=(
            Bar("p99_ms", 1.0, of="aiokafka"),
            Bar("cpu_us", 0.3, of="aiokafka"),
            Bar("cpu_us", 1.0, of="confluent"),
        ),
        reference="aiokafka",
    ),
    Suite(
        "backlog",
        "memory while reading a backlog of 2 GB (1 KiB records), default settings",
        (
            *_three("backlog"),
            *_three("backlog", ", slowly", pace=10_000, records=50_000),
        ),
        {"records": BACKLOG, "size": 1024},
        reads=True,
        bars=(Bar("growth_mb", 20.0), Bar("growth_mb", 20.0, row=f"{OURS}, slowly")),
        figure="growth_mb",
        most_rounds=2,
    ),
    _many("many-idle", "idle", "many_idle", Bar("cpu_share", 0.6, of="confluent"), records=0),
    _many(
        "many-steady",
        "one hot, 2,000 records per second",
        "many_steady",
        Bar("cpu_us", 0.7, of="confluent"),
        records=6_000,
        pace=2_000,
    ),
    _many(
        "many-backlog",
        "one hot, a backlog",
        "many_backlog",
        Bar("cpu_us", 0.4, of="confluent"),
        records=300_000,
    ),
    Suite(
        "service",
        "10,000 requests per second that produce and consume in one uvloop loop, while a gzip "
        "backlog is read: maximum time that the loop is blocked",
        (
            Row(OURS, "service", "ours"),
            Row("without Kafka", "service", "nothing"),
            Row("aiokafka", "service", "aiokafka_peer"),
        ),
        {"records": 40_000, "pace": 10_000, "loop": "uvloop"},
        bars=(Bar("blocked_ms", 10.0),),
        reference="without Kafka",
        most_rounds=3,
    ),
    Suite(
        "cold-consume",
        "a new process: from start() to the first record read, without a group",
        (
            Row(OURS, "cold_start", "ours_first_record"),
            Row("confluent", "cold_start", "confluent_first_record"),
            Row("aiokafka", "cold_start", "aiokafka_first_record"),
        ),
        {"records": 100_000},
        reads=True,
        figure="cold_ms",
        bars=(Bar("cold_ms", 1.0, of="confluent"), Bar("cold_ms", 1.0, of="aiokafka")),
    ),
)
