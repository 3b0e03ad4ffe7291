"""Kafka for Spark, through PySpark and without a Kafka jar: `format("kafka_lite")`.

With `pip install aiokafka_lite[spark]` on the driver the format is there in every session, to
read and to write, in batches and in streams, with the options of Spark's own `kafka` format.
Where Spark does not look for installed formats (or one was made by hand), `register(spark)`
tells it.

Importing this package imports no pyspark; its names do when they are first used.
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
