"""An asyncio-native Apache Kafka client with aiokafka's public API."""

from aiokafka_lite._version import __version__

__all__ = ["__version__"]
