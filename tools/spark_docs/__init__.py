"""Generates the options of the Spark page from the code that parses them.

`python -m tools.spark_docs` writes the tables into docs/spark.md, between the lines
`<!-- NAME -->` and `<!-- /NAME -->` for each NAME of `tables.TABLES`, and leaves the rest of
the page as it is; with `--check`, it only reports whether they are stale. Needs no pyspark.
"""
