"""Applies a pipeline's steps in Spark: each takes a DataFrame and returns one."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from aiokafka_lite.spark.pipeline.fields import SpecError
from aiokafka_lite.spark.pipeline.pipeline_steps import (
    Decode,
    Deduplicate,
    Encode,
    PythonFunction,
    Sql,
    Step,
    Window,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["apply_step"]

_WITH = re.compile(r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*WITH\b(\s+RECURSIVE\b)?", re.I | re.S)
_NOT_DECODED = "_not_decoded"
_DECODED = "_decoded"


def apply_step(step: Step, records: DataFrame, spark: SparkSession, where: str) -> DataFrame:
    """Apply one step.

    Raises:
        SpecError: The step does not fit the rows; the message names its place.
    """
    from pyspark.errors import PySparkException

    try:
        match step:
            case Sql():
                return _sql(step, records, spark)
            case PythonFunction():
                return _call(step, records, spark)
            case Decode():
                return _decode(step, records)
            case Window():
                return _window(step, records)
            case Deduplicate():
                return _deduplicate(step, records)
            case Encode():
                return _encode(step, records)
    except (SpecError, PySparkException) as error:
        raise SpecError(f"{where}: {error}") from error


def _sql(step: Sql, records: DataFrame, spark: SparkSession) -> DataFrame:
    # Each step has its own view name: Spark Connect resolves a view when it analyses the query,
    # so with a shared name a second step would find itself.
    view = f"_records_{uuid.uuid4().hex}"
    records.createOrReplaceTempView(view)
    first = f"records AS (SELECT * FROM {view})"
    own = _WITH.match(step.query)
    if own is None:
        return spark.sql(f"WITH {first}\n{step.query}")
    recursive = own[1] or ""
    return spark.sql(f"WITH{recursive} {first},\n{step.query[own.end() :]}")


def _call(step: PythonFunction, records: DataFrame, spark: SparkSession) -> DataFrame:
    from pyspark.sql import DataFrame

    module_name, _, name = step.path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise SpecError(f"{step.path} cannot be imported: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise SpecError(f"{module_name} has no function {name}")
    _ship(module_name, spark)
    try:
        inspect.signature(function).bind(records, **step.arguments)
    except TypeError as error:
        raise SpecError(f"{step.path} does not accept these arguments: {error}") from error
    result = function(records, **step.arguments)
    if not isinstance(result, DataFrame):
        raise SpecError(f"{step.path} returned {type(result).__name__}, not a DataFrame")
    return result


def _ship(module_name: str, spark: SparkSession) -> None:
    """Send the module to the workers, which need it to load its functions (such as UDFs).

    Only a single file needs this: packages are installed where Spark runs, or packed.
    """
    module = sys.modules[module_name]
    file = getattr(module, "__file__", None)
    if "." in module_name or file is None or Path(file).name == "__init__.py":
        return
    if "site-packages" in Path(file).parts:
        return
    spark.addArtifacts(file, pyfile=True)


def _decode(step: Decode, records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    text = F.col(step.column).cast("string")
    options = {"mode": "FAILFAST" if step.on_error == "fail" else "PERMISSIVE"}
    schema = step.schema
    if step.on_error == "drop":
        options["columnNameOfCorruptRecord"] = _NOT_DECODED
        schema = f"{schema}, {_NOT_DECODED} STRING"
    decode = F.from_json if step.codec == "json" else F.from_csv
    decoded = records.select(
        decode(text, schema, options).alias(_DECODED), *(F.expr(kept) for kept in step.keep)
    )
    if step.on_error == "drop":
        # A null text (a tombstone) decodes to null, so it does not match the schema either.
        decoded = decoded.where(
            F.col(_DECODED).isNotNull() & F.col(f"{_DECODED}.{_NOT_DECODED}").isNull()
        )
    kept = [column for column in decoded.columns if column != _DECODED]
    result = decoded.select(f"{_DECODED}.*", *kept)
    if step.on_error == "drop":
        result = result.drop(_NOT_DECODED)
    twice = {column for column in result.columns if result.columns.count(column) > 1}
    if twice:
        names = ", ".join(sorted(twice))
        raise SpecError(f"keep and schema both contain {names}: rename it in keep (AS)")
    return result


def _window(step: Window, records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    timed = _timed(records, step.time, step.watermark)
    span: Column
    if step.gap is not None:
        span = F.session_window(step.time, step.gap)
    elif step.length is not None:
        span = F.window(step.time, step.length, step.slide)
    groups = [F.expr(group) for group in step.by]
    aggregates = [F.expr(what).alias(name) for name, what in step.aggregates.items()]
    grouped = timed.groupBy(span.alias("_window"), *groups).agg(*aggregates)
    rest = [column for column in grouped.columns if column != "_window"]
    return grouped.select(
        F.col("_window.start").alias("window_start"),
        F.col("_window.end").alias("window_end"),
        *rest,
    )


def _deduplicate(step: Deduplicate, records: DataFrame) -> DataFrame:
    timed = _timed(records, step.time, step.watermark)
    if not records.isStreaming:
        return timed.dropDuplicates(list(step.columns))
    return timed.dropDuplicatesWithinWatermark(list(step.columns))


def _timed(records: DataFrame, time: str, watermark: str | None) -> DataFrame:
    if dict(records.dtypes).get(time) != "timestamp":
        records = records.withColumn(time, records[time].cast("timestamp"))
    return records if watermark is None else records.withWatermark(time, watermark)


def _encode(step: Encode, records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    value = F.struct(*(step.columns or records.columns))
    encode = F.to_json if step.codec == "json" else F.to_csv
    columns = [encode(value).alias("value")]
    for name, expression, kind in (
        ("key", step.key, "string"),
        ("topic", step.topic, "string"),
        ("partition", step.partition, "int"),
    ):
        if expression is not None:
            columns.append(F.expr(expression).cast(kind).alias(name))
    if step.headers is not None:
        columns.append(F.expr(step.headers).alias("headers"))
    return records.select(*columns)
