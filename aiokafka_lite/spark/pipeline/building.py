"""Builds a pipeline's source, tables and sink in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka_lite.spark.pipeline.fields import SpecError
from aiokafka_lite.spark.pipeline.spark_session import know_format
from aiokafka_lite.spark.pipeline.transforms import apply_step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from aiokafka_lite.spark.pipeline.spec import Pipeline, Sink, Source

__all__ = ["batch_writer", "build", "stream_writer"]

OF_FILES = ("csv", "json", "orc", "parquet", "text")


def build(pipeline: Pipeline, spark: SparkSession) -> DataFrame:
    """Return the pipeline's rows before its sink.

    Raises:
        SpecError: A step does not fit its input.
    """
    if "kafka_lite" in {source.format for source in pipeline.sources} | {pipeline.sink.format}:
        know_format(spark)
    for name, table in pipeline.tables.items():
        _read_whole(table, spark).createOrReplaceTempView(name)
    source = pipeline.source
    records = _read_whole(source, spark) if source.bounded else _read_stream(source, spark)
    for number, step in enumerate(pipeline.steps):
        records = apply_step(step, records, spark, f"steps[{number}]")
    return records


def stream_writer(pipeline: Pipeline, records: DataFrame, *, once: bool) -> DataStreamWriter:
    """Return the stream's sink, ready to start; `once` ends it after the available records."""
    sink = pipeline.sink
    writer = records.writeStream.queryName(pipeline.name).outputMode(sink.mode).format(sink.format)
    writer = writer.options(**sink.options)
    if sink.checkpoint is not None:
        writer = writer.option("checkpointLocation", sink.checkpoint)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    if once or sink.trigger == "available_now":
        return writer.trigger(availableNow=True)
    if sink.trigger is not None:
        return writer.trigger(processingTime=sink.trigger)
    return writer


def batch_writer(sink: Sink, records: DataFrame) -> DataFrameWriter:
    """Return the sink of a bounded source, ready to save."""
    writer = records.write.format(sink.format).mode(sink.mode).options(**sink.options)
    return writer.partitionBy(*sink.partition_by) if sink.partition_by else writer


def _read_whole(source: Source, spark: SparkSession) -> DataFrame:
    reader = spark.read.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    return reader.load()


def _read_stream(source: Source, spark: SparkSession) -> DataFrame:
    reader = spark.readStream.format(source.format).options(**source.options)
    if source.schema is not None:
        return reader.schema(source.schema).load()
    if source.format == "parquet":
        # A file stream needs its columns before the first file; Parquet files contain them.
        return reader.schema(_read_whole(source, spark).schema).load()
    if source.format in OF_FILES and source.format != "text":
        raise SpecError(
            f"source.schema is missing: {source.format} files do not contain their schema"
        )
    return reader.load()
