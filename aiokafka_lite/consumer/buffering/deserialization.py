"""Applies the application's deserializers, which may raise, and interceptors, which must not, to
decoded records.

A read raises the deserializer's exception unchanged, because applications written for aiokafka
catch it. A note reports the record for people, and an `UndeserializedRecord` for programs.
"""

from __future__ import annotations

from asyncio import CancelledError

from aiokafka_lite.abc import RecordDeserializer
from aiokafka_lite.consumer.consumer_options import Deserializer
from aiokafka_lite.consumer.partitions.delivery import Record
from aiokafka_lite.reading.record_interceptors import Interceptors
from aiokafka_lite.reading.undeserialized import attach_record, raised_error

__all__ = ["Deserialization"]


class Deserialization:
    """The deserializers and interceptors of one consumer.

    Args:
        key_deserializer: Applied to each key, or None.
        value_deserializer: Applied to each value, or None.
        interceptors: Called with the deserialized records, or None.

    Attributes:
        needed: True if there is a deserializer or an interceptor.
    """

    def __init__(
        self,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
        interceptors: Interceptors | None = None,
    ) -> None:
        self.needed = (
            key_deserializer is not None
            or value_deserializer is not None
            or interceptors is not None
        )
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._interceptors = interceptors

    def apply(self, records: list[Record]) -> tuple[int, Exception | None]:
        """Deserialize in place.

        Args:
            records: Of one partition.

        Returns:
            The number of deserialized records, and the exception for the next one, or None.
        """
        key_deserializer, value_deserializer = self._key_deserializer, self._value_deserializer
        if key_deserializer is None and value_deserializer is None:
            return len(records), None
        key_knows = key_deserializer if isinstance(key_deserializer, RecordDeserializer) else None
        value_knows = (
            value_deserializer if isinstance(value_deserializer, RecordDeserializer) else None
        )
        done = 0
        part, key = "key", None
        try:
            for record in records:
                if key_deserializer is not None:
                    part, key = "key", record.key
                    if key_knows:
                        record.key = key_knows.deserialize(record.topic, record.headers, key)
                    else:
                        record.key = key_deserializer(key)
                if value_deserializer is not None:
                    part, value = "value", record.value
                    if value_knows:
                        record.value = value_knows.deserialize(record.topic, record.headers, value)
                    else:
                        record.value = value_deserializer(value)
                done += 1
        except (Exception, CancelledError) as raised:
            error, record = raised_error(raised), records[done]
            if key_deserializer is not None:
                record.key = key  # as it was read
            attach_record(error, part, record, "seek() past it to skip it")
            return done, error
        return done, None

    def intercept(self, records: list[Record]) -> list[Record]:
        """Pass records through the interceptors before they are delivered."""
        if self._interceptors is None or not records:
            return records
        return self._interceptors.on_consume(records)
