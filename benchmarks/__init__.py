"""Client CPU a record, beside the peers, on a real Kafka: `python -m benchmarks`."""
