"""Registers the format "kafka_lite" with Spark, which looks into each installed `pyspark_*` module.

Spark imports all of these modules whenever it looks up any Python format, and an error in one
breaks the others. So this module can always be imported: an error that names the missing package
is raised only when the format is used.
"""

from __future__ import annotations

import sys

try:
    from aiokafka_lite.spark.source import KafkaLiteDataSource as DefaultSource
except Exception as error:  # what is installed may be broken in any way
    _missing = error
    try:
        from pyspark.sql.datasource import DataSource
    except ImportError:
        pass  # without PySpark 4.0 or newer, this module is never used
    else:

        class DefaultSource(DataSource):  # type: ignore[no-redef]  # stands in for the real one
            """Raises an error that explains why the real format is not available."""

            def __init__(self, options: dict[str, str]) -> None:
                raise ImportError(
                    f"kafka_lite cannot be used with what is installed for {sys.executable} (it "
                    "needs pyspark >= 4.2 and pyarrow >= 17: `pip install aiokafka_lite[spark]`): "
                    f"{_missing}. To make Spark use another Python, such as that of a virtual "
                    "environment, activate it or set PYSPARK_PYTHON before the session is created"
                )

            @classmethod
            def name(cls) -> str:
                return "kafka_lite"
