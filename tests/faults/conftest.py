"""What needs no real Kafka runs twice: on asyncio's event loop and on uvloop's."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

QUICK = {
    *("test_chaos_embedded", "test_cancelling", "test_stop_in_time"),
    "test_cancelling_consumer",
}


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
        "asyncio": asyncio.new_event_loop
    }
    if item.path.stem in QUICK:
        factories["uvloop"] = uvloop.new_event_loop
    return factories
