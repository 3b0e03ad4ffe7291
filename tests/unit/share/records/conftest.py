"""Both builds of the marks and of the records; a test that takes one runs with each."""

from importlib import import_module
from types import ModuleType

import pytest

from aiokafka_lite import _build

ROOM = "aiokafka_lite.share.records"
BUILDS = ["native", "python"] if _build.NATIVE else ["python"]


@pytest.fixture(params=BUILDS)
def marking(request: pytest.FixtureRequest) -> ModuleType:
    """`_record_marks_native`, then its twin."""
    return import_module(f"{ROOM}._record_marks_{request.param}")


@pytest.fixture(params=BUILDS)
def records(request: pytest.FixtureRequest) -> ModuleType:
    """`_share_record_native`, then its twin."""
    return import_module(f"{ROOM}._share_record_{request.param}")
