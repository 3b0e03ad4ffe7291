"""The table of what is measured: one `Row` a line of the report, one `Suite` a comparison."""

from __future__ import annotations

from .consumer_suites import CONSUMER_SUITES
from .producer_suites import PRODUCER_SUITES
from .suite import Suite

SUITES: tuple[Suite, ...] = (*PRODUCER_SUITES, *CONSUMER_SUITES)

GROUPS: dict[str, tuple[Suite, ...]] = {"producer": PRODUCER_SUITES, "consumer": CONSUMER_SUITES}
"""Names under which several suites are asked for at once."""
