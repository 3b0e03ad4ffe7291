"""How Spark finds the format "kafka_lite": it looks into every installed module `pyspark_*`.

Spark imports all of them whenever it looks for any Python format, and an error in one breaks the
others. So this module can always be imported: what is missing here is told by name when somebody
uses the format.
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
        pass  # without PySpark, or with one before 4.0, nobody looks for formats here
    else:

        class DefaultSource(DataSource):  # type: ignore[no-redef]  # stands in for the real one
            """Says why the real one is not to be had."""

            def __init__(self, options: dict[str, str]) -> None:
                raise ImportError(
                    f"kafka_lite cannot be used with what is installed for {sys.executable} (it "
                    "needs pyspark >= 4.2 and pyarrow >= 17: `pip install aiokafka_lite[spark]`): "
                    f"{_missing}. If Spark should use another Python, that of a virtual "
                    "environment for example, activate it or set PYSPARK_PYTHON before the session "
                    "is created"
                )

            @classmethod
            def name(cls) -> str:
                return "kafka_lite"
