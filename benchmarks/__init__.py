"""CPU per record of aiokafka_lite and its peers with a real Kafka: `python -m benchmarks`."""
