"""The data source "kafka_lite", which gives Spark its schema, readers and writers.

Spark starts a process for it at every load, for every stream and for each kind of query. So
readers and writers are imported only on use, and a stream starts a quarter of a second sooner.
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
    # Readers and writers import pyarrow; report that it is missing before using them.
    raise ImportError("No module named 'pyarrow'", name="pyarrow")

FORMAT: Final = "kafka_lite"

_IS_THERE: Final = "DATA_SOURCE_ALREADY_EXISTS"
"""Spark's error class for an already registered format."""


def record_schema(include_headers: bool) -> StructType:
    """Return the columns of a record, those of Spark's own `kafka` format."""
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
    """The data source of `spark.read.format("kafka_lite")`, `readStream`, `write`, `writeStream`.

    Args:
        options: The options of Spark's own `kafka` format, and a few more; see `options` and
            `write_options`.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        # Spark requests the schema only for reads, at `load()`: earlier than the reader, which a
        # stream requests when it starts.
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
    """Register the format in a session that did not find it; does nothing if the session has it.

    Logs a warning if the session is local and its Python workers use an interpreter that cannot
    import this package, because then Spark cannot find the format.

    Args:
        spark: Any session; with Spark Connect, the server must have the module, too.

    Raises:
        AnalysisException: Spark refuses for another reason than an existing registration.
    """
    from aiokafka_lite.spark.notices import warn_of_other_python

    context = getattr(spark, "sparkContext", None)  # none with Connect
    if context is not None:
        warn_of_other_python(context)
    try:
        spark.dataSource.register(KafkaLiteDataSource)
    except AnalysisException as error:
        if error.getCondition() != _IS_THERE:
            raise
