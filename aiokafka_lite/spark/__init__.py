"""Kafka for Spark, through PySpark and without a Kafka jar: `format("kafka_lite")`.

After `pip install aiokafka_lite[spark]` on the driver, every session can read and write the
format, in batches and streams, with the options of Spark's own `kafka` format. If Spark does not
search for installed formats (or has none of this name), call `register(spark)`.

Importing this package does not import pyspark; the first use of its names does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiokafka_lite.spark.progress_listener import ProgressListener as ProgressListener
    from aiokafka_lite.spark.source import KafkaLiteDataSource as KafkaLiteDataSource
    from aiokafka_lite.spark.source import register as register

_HOME_OF: Final = {
    "KafkaLiteDataSource": "source",
    "ProgressListener": "progress_listener",
    "register": "source",
}

__all__ = ["KafkaLiteDataSource", "ProgressListener", "register"]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
