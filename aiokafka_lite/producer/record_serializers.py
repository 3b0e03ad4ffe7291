"""Serializers that receive the topic and the headers of their record (`abc.RecordSerializer`).

A producer without one never calls this module.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiokafka_lite import _arguments
from aiokafka_lite.abc import RecordSerializer
from aiokafka_lite.producer.batching.accumulator import Ack, Blocked
from aiokafka_lite.producer.producer_options import ProducerOptions

__all__ = ["K", "RecordSerializers", "V"]

# As in `_consumer_record_python`, which a producer does not import.
if TYPE_CHECKING:
    from typing_extensions import TypeVar  # part of the type checkers; not installed at run time

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

Serializer = Callable[[Any], Any] | None


class RecordSerializers:
    """Serializes keys and values before the accumulator takes their record.

    Args:
        key_serializer: The producer's; None, or a plain one, has no effect here.
        value_serializer: Likewise.
    """

    def __init__(self, key_serializer: Serializer, value_serializer: Serializer) -> None:
        self._key = key_serializer if isinstance(key_serializer, RecordSerializer) else None
        self._value = value_serializer if isinstance(value_serializer, RecordSerializer) else None

    @property
    def needed(self) -> bool:
        """True if at least one of them takes the record."""
        return self._key is not None or self._value is not None

    def others_of(self, options: ProducerOptions) -> ProducerOptions:
        """Return the options without the serializers that this object calls."""
        others = copy.copy(options)
        if self._key is not None:
            others.key_serializer = None
        if self._value is not None:
            others.value_serializer = None
        return others

    def before(self, append: Callable[..., Ack | Blocked]) -> Callable[..., Ack | Blocked]:
        """Return an `append` that serializes first.

        Args:
            append: Of an accumulator without these serializers.
        """
        key_serializer, value_serializer = self._key, self._value

        def serialize_and_append(
            topic: str,
            value: Any,
            key: Any,
            partition: int | None,
            timestamp_ms: int | None,
            headers: Any,
        ) -> Ack | Blocked:
            _arguments.topic_name(topic)
            if headers is not None:
                _arguments.check_headers(headers)
            own = [] if headers is None else list(headers)
            if key_serializer is not None:
                key = key_serializer.serialize(topic, own, key)
            if value_serializer is not None:
                value = value_serializer.serialize(topic, own, value)
            return append(topic, value, key, partition, timestamp_ms, own or None)

        return serialize_and_append
