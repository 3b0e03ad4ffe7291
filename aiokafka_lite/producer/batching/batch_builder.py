"""aiokafka's `BatchBuilder`: batches that the application fills itself."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aiokafka_lite import _arguments
from aiokafka_lite.errors import IllegalArgumentError
from aiokafka_lite.record.batch import BatchBuilder as RecordBatchBuilder

__all__ = ["AppendedRecord", "BatchBuilder"]


class AppendedRecord(NamedTuple):
    """A record in a batch that has not been sent."""

    offset: int
    """The record's index in the batch."""
    size: int
    """Bytes that the record takes in the batch, before compression."""
    timestamp: int
    """Milliseconds since the epoch."""
    crc: None = None
    """Always None, for compatibility with aiokafka: a v2 batch has one checksum for all records."""


class BatchBuilder:
    """A batch made by `AIOKafkaProducer.create_batch` and sent by its `send_batch`.

    Args:
        limit: Maximum bytes before compression; the first record is accepted in any case.
        key_serializer: The producer's key serializer.
        value_serializer: The producer's value serializer.
    """

    def __init__(
        self,
        limit: int,
        key_serializer: Callable[[Any], Any] | None,
        value_serializer: Callable[[Any], Any] | None,
    ) -> None:
        self._builder = RecordBatchBuilder(limit)
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._closed = False
        self._sent = False

    def append(
        self,
        *,
        timestamp: int | None,
        key: Any,
        value: Any,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> AppendedRecord | None:
        """Add a record.

        Args:
            timestamp: Milliseconds since the epoch; None for now.
            key: Bytes or None, or what the producer's `key_serializer` takes.
            value: Bytes or None, or what its `value_serializer` takes.
            headers: (str, bytes or None) pairs.

        Returns:
            The appended record. None if the batch has no room for it or is closed: the record was
            not added.

        Raises:
            TypeError: A field has the wrong type. Nothing was added.
            IllegalArgumentError: (a ValueError) The timestamp is out of range.
        """
        if self._closed:
            return None
        if timestamp is None:
            timestamp = time.time_ns() // 1_000_000
        else:
            timestamp = _arguments.timestamp_ms(timestamp)
        if headers is not None:
            _arguments.check_headers(headers)
        if self._key_serializer is not None:
            key = self._key_serializer(key)
        if self._value_serializer is not None:
            value = self._value_serializer(value)
        before = self._builder.size
        index = self._builder.append(timestamp, key, value, headers)
        if index < 0:
            self.close()
            return None
        return AppendedRecord(index, self._builder.size - before, timestamp)

    def close(self) -> None:
        """Accept no more records; a full batch and a sent batch are closed automatically."""
        self._closed = True

    def closed(self) -> bool:
        """True if the batch accepts no more records."""
        return self._closed

    def size(self) -> int:
        """Return the bytes so far, before compression, the batch's header included."""
        return self._builder.size

    def record_count(self) -> int:
        """Return the number of records so far."""
        return self._builder.count

    def take(self) -> RecordBatchBuilder:
        """Return the builder to send; for the producer.

        Raises:
            IllegalArgumentError: The batch is empty or was sent before.
        """
        if self._sent:
            raise IllegalArgumentError("the batch was sent before")
        if not self._builder.count:
            raise IllegalArgumentError("the batch is empty")
        self._closed = self._sent = True
        return self._builder

    def give_back(self) -> None:
        """Allow the batch to be sent again, because it was not sent; for the producer."""
        self._sent = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.record_count()} records, {self.size()} bytes>"
