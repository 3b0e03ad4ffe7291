"""An asyncio-native Apache Kafka client with aiokafka's public API."""

__version__ = "0.1.0"
