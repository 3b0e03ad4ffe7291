"""Both builds of the native hot path, as fixtures: a test that takes one runs over each."""

from importlib import import_module
from types import ModuleType

import pytest


@pytest.fixture(params=["native", "python"])
def acks(request: pytest.FixtureRequest) -> ModuleType:
    """``_ack_native``, then its twin."""
    return import_module(f"aiokafka_lite.producer._ack_{request.param}")
