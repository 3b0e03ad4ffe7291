"""Spark pipelines from a specification: a source, steps and a sink.

    from aiokafka_lite.spark.pipeline import load, run

    print(run(load("orders.toml"), once=True))

The same in Python, without a file::

    pipeline = Pipeline(
        name="orders",
        source=Source("kafka_lite", {"kafka.bootstrap.servers": ..., "subscribe": "orders"}),
        steps=(Decode("json", "item STRING, price DOUBLE"), Sql("SELECT ... FROM records")),
        sink=Sink("parquet", {"path": "orders"}, checkpoint="checkpoints/orders"),
    )

On the command line: `python -m aiokafka_lite pipeline run orders.toml`. pyspark is imported only
when a pipeline runs.
"""

from aiokafka_lite.spark.pipeline.fields import SpecError
from aiokafka_lite.spark.pipeline.loading import load, ready_pipelines
from aiokafka_lite.spark.pipeline.pipeline_steps import (
    Decode,
    Deduplicate,
    Encode,
    PythonFunction,
    Sql,
    Window,
)
from aiokafka_lite.spark.pipeline.reporting import Summary
from aiokafka_lite.spark.pipeline.runner import run, start
from aiokafka_lite.spark.pipeline.spec import Pipeline, Sink, Source

__all__ = [
    "Decode",
    "Deduplicate",
    "Encode",
    "Pipeline",
    "PythonFunction",
    "Sink",
    "Source",
    "SpecError",
    "Sql",
    "Summary",
    "Window",
    "load",
    "ready_pipelines",
    "run",
    "start",
]
