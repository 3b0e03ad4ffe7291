"""An asyncio-native Apache Kafka client with aiokafka's public API.

async with AIOKafkaProducer(bootstrap_servers="localhost:9092") as producer:
    done = await producer.send_and_wait("orders", b"one tea", key=b"table 4")

async with AIOKafkaConsumer("orders", bootstrap_servers="localhost:9092") as consumer:
    async for record in consumer:
        print(record.offset, record.value)

Each name is imported on first access, so that a producer does not pay for importing the consumer,
nor the embedded broker (`aiokafka_lite.testing`) for either.

`__version__` is the release. `__build__` says which hot paths this process runs: "native"
(compiled) or "pure Python" (several times slower: no C compiler was found at installation, or
AIOKAFKA_LITE_PURE=1 is set).
"""

from typing import TYPE_CHECKING

from aiokafka_lite._version import __version__

if TYPE_CHECKING:
    from aiokafka_lite._build import BUILD as __build__
    from aiokafka_lite.abc import ConsumerRebalanceListener
    from aiokafka_lite.admin import AIOKafkaAdminClient
    from aiokafka_lite.as_aiokafka.import_alias import install_as_aiokafka, uninstall_as_aiokafka
    from aiokafka_lite.client import AIOKafkaClient
    from aiokafka_lite.consumer import AIOKafkaConsumer, SubscriptionPattern
    from aiokafka_lite.errors import ConsumerStoppedError, IllegalOperation
    from aiokafka_lite.producer import AIOKafkaProducer
    from aiokafka_lite.read_process_write import exactly_once
    from aiokafka_lite.share import AcknowledgeType, AIOKafkaShareConsumer, ShareRecord
    from aiokafka_lite.structs import (
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        TopicPartition,
    )

__all__ = [
    "AIOKafkaAdminClient",
    "AIOKafkaClient",
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "AIOKafkaShareConsumer",
    "AcknowledgeType",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "IllegalOperation",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "ShareRecord",
    "SubscriptionPattern",
    "TopicPartition",
    "__build__",
    "__version__",
    "exactly_once",
    "install_as_aiokafka",
    "uninstall_as_aiokafka",
]

_HOMES = {
    "AIOKafkaAdminClient": "admin",
    "AIOKafkaClient": "client",
    "AIOKafkaConsumer": "consumer",
    "AIOKafkaProducer": "producer",
    "AIOKafkaShareConsumer": "share",
    "AcknowledgeType": "share",
    "ConsumerRebalanceListener": "abc",
    "ConsumerRecord": "structs",
    "ConsumerStoppedError": "errors",
    "IllegalOperation": "errors",
    "OffsetAndMetadata": "structs",
    "OffsetAndTimestamp": "structs",
    "ShareRecord": "share",
    "SubscriptionPattern": "consumer",
    "TopicPartition": "structs",
    "exactly_once": "read_process_write",
    "install_as_aiokafka": "as_aiokafka.import_alias",
    "uninstall_as_aiokafka": "as_aiokafka.import_alias",
}
_MODULES = {
    "abc",
    "admin",
    "client",
    "consumer",
    "errors",
    "helpers",
    "partitioner",
    "producer",
    "share",
    "structs",
}
"""Submodules reachable after `import aiokafka_lite` alone, as with `import aiokafka`."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__build__":
        return import_module(f"{__name__}._build").BUILD
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
