"""Lists all suites: each `Suite` is a comparison, each `Row` a line of its table."""

from __future__ import annotations

from .consumer_suites import CONSUMER_SUITES
from .producer_suites import PRODUCER_SUITES
from .spark_suites import SPARK_SUITES
from .suite import Suite
from .transaction_suites import TRANSACTION_SUITES

SUITES: tuple[Suite, ...] = (
    *PRODUCER_SUITES,
    *TRANSACTION_SUITES,
    *CONSUMER_SUITES,
    *SPARK_SUITES,
)

GROUPS: dict[str, tuple[Suite, ...]] = {
    "producer": PRODUCER_SUITES,
    "transactions": TRANSACTION_SUITES,
    "consumer": CONSUMER_SUITES,
    "spark": SPARK_SUITES,
}
"""Suites by the name of their group, which the command line accepts."""
