"""Tests without a real Kafka run twice: on asyncio's event loop and on uvloop's.

CHAOS_LOOP=uvloop runs the others on uvloop.
"""

import asyncio
import os
from collections.abc import Callable

import pytest
import uvloop

from tests.fair_loop import new_loop
from tests.unit.conftest import tls_files as tls_files  # a fixture

QUICK = {
    *("test_chaos_embedded", "test_cancelling", "test_stop_deadline_producer"),
    "test_cancelling_consumer",
}


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    # A real broker uses wall-clock time, so its clients must, too.
    real = item.get_closest_marker("real") is not None
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
        "asyncio": asyncio.new_event_loop if real else new_loop
    }
    if item.path.stem in QUICK or os.environ.get("CHAOS_LOOP") == "uvloop":
        factories["uvloop"] = uvloop.new_event_loop
    return factories
