"""A step of enrich.toml: a function from DataFrame to DataFrame."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def with_tax(orders: DataFrame, rate: float) -> DataFrame:
    """Add the tax of each order."""
    return orders.withColumn("tax", F.round(F.col("price") * F.col("quantity") * rate, 2))
