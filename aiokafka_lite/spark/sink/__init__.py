"""Writing rows of Spark to Kafka: at least once, or exactly once."""
