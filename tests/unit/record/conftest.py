"""Runs each test that uses `build` on the native modules and on their twins."""

import importlib
import os
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Build:
    """The names that exist in both builds, from one of them."""

    name: str
    BatchBuilder: Any
    record_size_upper_bound: Any
    RecordSet: Any
    read_columns: Any
    ArrowRows: Any
    Rows: Any
    murmur2: Any
    ConsumerRecord: Any


def load(kind: str) -> Build:
    def module(name: str) -> Any:
        return importlib.import_module(f"aiokafka_lite.{name}_{kind}")

    batch = module("record._batch")
    return Build(
        kind,
        batch.BatchBuilder,
        batch.record_size_upper_bound,
        module("record._record_set").RecordSet,
        module("record.columnar._columns").read_columns,
        module("record.columnar._arrow").ArrowRows,
        module("record.columnar._column_rows").Rows,
        module("record._murmur2").murmur2,
        module("_consumer_record").ConsumerRecord,
    )


def load_native() -> Build:
    try:
        return load("native")
    except ModuleNotFoundError as error:
        if os.environ.get("AIOKAFKA_LITE_REQUIRE_NATIVE") == "1":
            raise
        pytest.skip(f"the native build is not there: {error.name}")


@pytest.fixture(params=["native", "twin"])
def build(request: pytest.FixtureRequest) -> Build:
    return load_native() if request.param == "native" else load("python")


@pytest.fixture
def native() -> Build:
    return load_native()


@pytest.fixture
def twin() -> Build:
    return load("python")
