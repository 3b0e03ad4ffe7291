"""Serializers that receive the topic and the headers of their record, and asynchronous ones.

Serializers of schema registries, such as those of confluent-kafka, are called with a value and a
context: topic, key or value, headers. This module calls them by that convention. It imports none of
them, and is not itself a client of a registry.

- `serializer` and `deserializer` adapt a synchronous one for `value_serializer`,
  `value_deserializer` and the like.
- `send_with` and `deserialized` await an asynchronous one before the send, and after the read: a
  `send` never waits for a registry.

Non-obvious:
- A record whose deserializer fails or is cancelled is not lost: a consumer returns to it, as it
  does after the failure of its own `value_deserializer`. It does not if the partition was revoked
  meanwhile, if its topic was recreated, or if the application chose another position.
- A record that is being deserialized is not auto-committed, as if it were a batch in progress in a
  block of `batches`: after a revocation, the next owner of the partition reads it.
- None, a tombstone, is passed on without a call.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeVar

from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.abc import RecordDeserializer, RecordSerializer
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.producer.batching.accumulator import Ack
from aiokafka_lite.producer.producer import AIOKafkaProducer
from aiokafka_lite.reading.undeserialized import attach_record
from aiokafka_lite.schemas.in_hand import InHand
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "MessageField",
    "SerializationContext",
    "deserialized",
    "deserializer",
    "send_with",
    "serializer",
]

Headers = list[tuple[str, bytes | None]]

_ADVICE: Final = "seek() past it to skip it"


class MessageField(enum.StrEnum):
    """The part of a record that is serialized."""

    KEY = "key"
    VALUE = "value"


@dataclass(slots=True)
class SerializationContext:
    """The record's data that a serializer receives.

    Attributes:
        topic: The record's topic.
        field: The key or the value.
        headers: The record's headers. A serializer may append to them.
    """

    topic: str
    field: MessageField
    headers: Headers


Convert = Callable[[Any, Any], Any]
"""Called with the data and a `SerializationContext`; returns the result, or an awaitable of it."""


def serializer(
    convert: Convert, *, field: MessageField | str = MessageField.VALUE
) -> RecordSerializer:
    """Adapt a synchronous serializer of a schema registry for a producer.

        registry = SchemaRegistryClient({"url": "http://localhost:8081"})
        producer = AIOKafkaProducer(
            value_serializer=serializer(AvroSerializer(registry, schema)),
        )

    It runs inside `send`, so a request to the registry blocks the event loop: usually one for each
    new schema. `send_with` does not block.

    Args:
        convert: The serializer; called with the data and a `SerializationContext`.
        field: "key" if it is for keys.

    Raises:
        TypeError: `convert` is not callable, or a coroutine function: use `send_with`.
        ValueError: `field` is neither "key" nor "value".
    """
    return _Serializer(_checked(convert, "send_with()"), MessageField(field))


def deserializer(
    convert: Convert, *, field: MessageField | str = MessageField.VALUE
) -> RecordDeserializer:
    """Adapt a synchronous deserializer of a schema registry for a consumer; see `serializer`.

    Args:
        convert: The deserializer; called with bytes and a `SerializationContext`.
        field: "key" if it is for keys.

    Raises:
        TypeError: `convert` is not callable, or a coroutine function: use `deserialized`.
        ValueError: `field` is neither "key" nor "value".
    """
    return _Deserializer(_checked(convert, "deserialized()"), MessageField(field))


async def send_with(
    producer: AIOKafkaProducer[Any, Any],
    topic: str,
    value: Any = None,
    key: Any = None,
    *,
    value_serializer: Convert | None = None,
    key_serializer: Convert | None = None,
    partition: int | None = None,
    timestamp_ms: int | None = None,
    headers: Sequence[tuple[str, bytes | None]] | None = None,
) -> Ack:
    """Serialize a record, then send it.

        ack = await send_with(producer, "orders", order, value_serializer=avro)

    Records of concurrent calls are sent in the order in which their serializers complete.

    Args:
        producer: A producer without its own serializers for the same field.
        topic: The topic's name.
        value: What `value_serializer` takes; None is a tombstone, which it does not see.
        key: What `key_serializer` takes, or None.
        value_serializer: Called with the value and a `SerializationContext`; may return an
            awaitable.
        key_serializer: Likewise for the key.
        partition, timestamp_ms, headers: As for `send`. Serializers may add headers.

    Returns:
        The record's ack, as `send` does.

    Raises:
        Any error of the serializers and of `send`.

    Cancellation: as for `send`; the record is not sent if the serializers have not completed.
    """
    own: Headers = [] if headers is None else list(headers)
    if key_serializer is not None and key is not None:
        key = await _converted(key_serializer, key, topic, MessageField.KEY, own)
    if value_serializer is not None and value is not None:
        value = await _converted(value_serializer, value, topic, MessageField.VALUE, own)
    return await producer.send(topic, value, key, partition, timestamp_ms, own or headers)


RecordT = TypeVar("RecordT", bound=ConsumerRecord[Any, Any])


def deserialized(
    records: AsyncIterable[RecordT], *, value: Convert | None = None, key: Convert | None = None
) -> AsyncIterator[RecordT]:
    """Iterate over records, with keys and values that were deserialized asynchronously.

        async for record in deserialized(consumer, value=avro):
            ...

    A deserializer's exception is raised unchanged, with a note that names the record, and
    `UndeserializedRecord.of(error)` returns it. A consumer then returns to the record: `seek` past
    it to skip it. Other sources, such as a share consumer, have delivered it.

    Args:
        records: A consumer without its own deserializers for the same field, or any other
            source of records.
        value: Called with the bytes of each value and a `SerializationContext`; may return an
            awaitable. None values are passed on.
        key: Likewise for keys.

    Cancellation: a record that is being deserialized is kept; the next iteration starts with it.
    """
    return _Deserialized(records, key, value)


class _Deserialized(Generic[RecordT]):
    """The iterator; not a generator, so that it continues after an error."""

    def __init__(
        self, records: AsyncIterable[RecordT], key: Convert | None, value: Convert | None
    ) -> None:
        self._source = records
        self._from_consumer = isinstance(records, AIOKafkaConsumer)
        self._records = aiter(records)
        self._key = key
        self._value = value
        self._kept: RecordT | None = None  # was interrupted

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RecordT:
        record, self._kept = self._kept, None
        if record is None:
            record = await anext(self._records)
        in_hand = self._in_hand(record)
        part, headers = MessageField.KEY, list(record.headers)
        key, value = record.key, record.value
        try:
            if self._key is not None and key is not None:
                key = await _converted(self._key, key, record.topic, part, headers)
            part = MessageField.VALUE
            if self._value is not None and value is not None:
                value = await _converted(self._value, value, record.topic, part, headers)
        except Exception as error:
            if in_hand is not None:
                in_hand.give_back()
            advice = _ADVICE if self._from_consumer else "it was delivered"
            attach_record(error, part.value, record, advice)
            raise
        except BaseException:
            if in_hand is not None:
                in_hand.give_back()
            if not self._from_consumer:
                self._kept = record
            raise
        finally:
            if in_hand is not None:
                in_hand.end()
        record.key, record.value = key, value
        return record

    def _in_hand(self, record: RecordT) -> InHand | None:
        """Keep the record of a consumer; None if its partition was revoked already."""
        consumer = self._source
        if not isinstance(consumer, AIOKafkaConsumer):
            return None
        core = consumer._core
        state = core.positions.get(TopicPartition(record.topic, record.partition))
        return None if state is None else InHand(core, state, record.offset)


@dataclass(frozen=True, slots=True)
class _Serializer(RecordSerializer):
    convert: Convert
    field: MessageField

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        if data is None:
            return None
        context = SerializationContext(topic, self.field, headers)
        result: bytes | None = _at_once(self.convert(data, context), "send_with()")
        return result


@dataclass(frozen=True, slots=True)
class _Deserializer(RecordDeserializer):
    convert: Convert
    field: MessageField

    def deserialize(
        self, topic: str, headers: Sequence[tuple[str, bytes | None]], data: bytes | None
    ) -> Any:
        if data is None:
            return None
        context = SerializationContext(topic, self.field, list(headers))
        return _at_once(self.convert(data, context), "deserialized()")


def _checked(convert: object, remedy: str) -> Convert:
    if not callable(convert):
        raise TypeError(f"a serializer or deserializer should be callable, not {convert!r}")
    call = convert.__call__
    if inspect.iscoroutinefunction(convert) or inspect.iscoroutinefunction(call):
        raise TypeError(f"{convert!r} is asynchronous: use {remedy}")
    return convert


def _at_once(result: Any, remedy: str) -> Any:
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(f"the serializer or deserializer is asynchronous: use {remedy}")
    return result


async def _converted(
    convert: Convert, data: Any, topic: str, field: MessageField, headers: Headers
) -> Any:
    result = convert(data, SerializationContext(topic, field, headers))
    return await result if isinstance(result, Awaitable) else result
