"""The format "kafka_lite": what Spark makes first, to learn the schema and to get readers and
writers from.

Spark starts a process for this at every load, at every stream and for each kind of question, so
what reads and what writes is imported by who asks for it: a stream begins a quarter of a second
sooner.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.spark.options import ReadOptions, check_readable, includes_headers

__all__ = ["KafkaLiteDataSource", "record_schema", "register"]

if find_spec("pyarrow") is None:
    # What reads and what writes imports it; who lacks it is told so before any of that.
    raise ImportError("No module named 'pyarrow'", name="pyarrow")

FORMAT: Final = "kafka_lite"

_IS_THERE: Final = "DATA_SOURCE_ALREADY_EXISTS"
"""Spark's name for the condition."""


def record_schema(include_headers: bool) -> StructType:
    """The columns of a record, those of Spark's own `kafka` format."""
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if include_headers:
        header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        fields.append(StructField("headers", ArrayType(header)))
    return StructType(fields)


class KafkaLiteDataSource(DataSource):
    """Kafka without a Kafka jar: `spark.read.format("kafka_lite")` and the three others.

    Args:
        options: Those of Spark's own `kafka` format, and a few more; see `options` and
            `write_options`.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        # Only who reads is asked for it, and at `load()`: earlier than for a reader, which a stream
        # gets when it starts.
        check_readable(self.options)
        return self._schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        from aiokafka_lite.spark.source_reader import BatchReader, FilteringBatchReader

        self._check(schema)
        options = ReadOptions.parse(self.options, streaming=False)
        return FilteringBatchReader(options) if options.pushdown else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from aiokafka_lite.spark.stream import StreamReader

        self._check(schema)
        return StreamReader(ReadOptions.parse(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from aiokafka_lite.spark.sink.writer import writer

        return writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from aiokafka_lite.spark.sink.writer import stream_writer

        return stream_writer(self.options, schema, overwrite)

    def _check(self, schema: StructType) -> None:
        if schema != self._schema():
            raise KafkaConfigurationError(
                "Kafka source has a fixed schema and cannot be set with a custom one: "
                f"{self._schema().simpleString()}"
            )

    def _schema(self) -> StructType:
        return record_schema(includes_headers(self.options))


def register(spark: SparkSession) -> None:
    """Make the format known to a session that did not find it by itself; in one that did, or was
    told before, nothing changes.

    Logs a warning if the session is local and starts its Python workers with an interpreter that
    cannot import this package, which is why Spark did not find it.

    Args:
        spark: Any session; over Spark Connect, the module has to be on the server, too.

    Raises:
        AnalysisException: Spark's refusal, for another reason than that the format is there.
    """
    from aiokafka_lite.spark.notices import warn_of_other_python

    context = getattr(spark, "sparkContext", None)  # none over Connect
    if context is not None:
        warn_of_other_python(context)
    try:
        spark.dataSource.register(KafkaLiteDataSource)
    except AnalysisException as error:
        if error.getCondition() != _IS_THERE:
            raise
