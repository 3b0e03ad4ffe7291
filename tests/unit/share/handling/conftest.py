"""The tests of `run` and `process` take hours of the loop's time, and no real time."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from tests.skipping_loop import SkippingLoop

SKIPPING = {"test_worker", "test_processing", "test_postponed", "test_lock_keeper"}


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.path.stem.endswith("_on_uvloop"):
        return {"uvloop": uvloop.new_event_loop}
    if item.path.stem in SKIPPING:
        return {"skipping": SkippingLoop}
    return {"asyncio": asyncio.new_event_loop}
