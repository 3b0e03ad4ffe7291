"""An asyncio-native Apache Kafka client with aiokafka's public API.

async with AIOKafkaProducer(bootstrap_servers="localhost:9092") as producer:
    done = await producer.send_and_wait("orders", b"one tea", key=b"table 4")

async with AIOKafkaConsumer("orders", bootstrap_servers="localhost:9092") as consumer:
    async for record in consumer:
        print(record.offset, record.value)
"""

from aiokafka_lite._version import __version__
from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import ConsumerStoppedError, IllegalOperation
from aiokafka_lite.producer import AIOKafkaProducer
from aiokafka_lite.structs import (
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

__all__ = [
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "IllegalOperation",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
    "__version__",
]
