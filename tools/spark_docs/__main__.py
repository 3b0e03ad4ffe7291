"""Writes the generated tables of docs/spark.md."""

from __future__ import annotations

import sys

from tools.spark_docs.tables import TABLES
from tools.tables import main

if __name__ == "__main__":
    sys.exit(main("tools.spark_docs", "spark.md", TABLES))
