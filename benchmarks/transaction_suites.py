"""Suites of transactions (bars: issue 7, "Cost")."""

from __future__ import annotations

from .suite import OURS, UVLOOP, Bar, Row, Suite

BESIDE = "the same and two requests"
AS_LONG = "the same and two requests, in a transaction's time"

TRANSACTION_SUITES = (
    Suite(
        "transaction-1000",
        "transactions of 1,000 records of 100 B and an offset, one after the other",
        (
            Row(OURS, "transactions_ours", "in_turn"),
            Row(UVLOOP, "transactions_ours", "in_turn", {"loop": "uvloop"}),
            Row(BESIDE, "transactions_ours", "without"),
            Row(AS_LONG, "transactions_ours", "without_in_the_same_time"),
            Row("confluent", "transactions_confluent", "in_turn"),
            Row("aiokafka", "transactions_aiokafka", "in_turn", {"records": 50_000}),
        ),
        {"records": 200_000, "transaction": 1000},
        reference=BESIDE,
        bars=(Bar("cpu_us", 1.15, of=BESIDE),),
    ),
    Suite(
        "transactions-small",
        "concurrent transactions of one record of 100 B, from 100 transactional ids",
        (
            Row(OURS, "transactions_ours", "side_by_side"),
            Row(UVLOOP, "transactions_ours", "side_by_side", {"loop": "uvloop"}),
            Row("confluent", "transactions_confluent", "side_by_side"),
        ),
        {"records": 20_000, "transaction": 1, "tasks": 100, "linger_ms": 0},
        bars=(Bar("rate", least=2000.0), Bar("cpu_us", 1.0, of="confluent")),
    ),
)
