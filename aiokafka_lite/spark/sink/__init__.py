"""Writes Spark rows to Kafka, at least once or exactly once."""
