"""Serializers that receive the topic and the headers of their record, and asynchronous ones,
such as those of schema registries; see docs/schemas.md."""

from aiokafka_lite.schemas.registry_serializers import (
    MessageField,
    SerializationContext,
    deserialized,
    deserializer,
    send_with,
    serializer,
)

__all__ = [
    "MessageField",
    "SerializationContext",
    "deserialized",
    "deserializer",
    "send_with",
    "serializer",
]
