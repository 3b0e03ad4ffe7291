"""The record in the error of a deserializer."""

from __future__ import annotations

from asyncio import CancelledError
from typing import Any, Final

from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.structs import RECORD_OF_ERROR, TopicPartition, UndeserializedRecord

__all__ = ["attach_record", "raised_error"]

_NOTES: Final = "__notes__"


def raised_error(raised: Exception | CancelledError) -> Exception:
    """Return the error that a deserializer raised, or another in place of those that mean something
    to the caller of a read.

    One that raises CancelledError, as the result of a cancelled future does, has not cancelled the
    task that calls it. The exception would end that task unnoticed, and every read would wait
    forever. StopAsyncIteration would end an `async for` as if the consumer had been stopped. A
    coroutine cannot raise StopIteration, which `next` raises without a default.
    """
    if isinstance(raised, Exception) and not isinstance(raised, StopIteration | StopAsyncIteration):
        return raised
    error = KafkaError(f"the deserializer raised {raised!r}")
    error.__cause__ = raised
    return error


def attach_record(
    error: Exception, part: str, record: ConsumerRecord[Any, Any], advice: str
) -> None:
    """Attach a record to the error of its deserializer, whatever the error's class.

    Args:
        error: Raised by the application's deserializer.
        part: "key" or "value".
        record: With the key and the value as they were read.
        advice: What the application can do.
    """
    bad = UndeserializedRecord(
        TopicPartition(record.topic, record.partition),
        record.offset,
        part,
        record.key,
        record.value,
        record.timestamp,
        tuple(record.headers),
    )
    # A frozen dataclass would refuse an ordinary assignment, and add_note with it.
    object.__setattr__(error, RECORD_OF_ERROR, bad)
    note = (
        f"while deserializing the {part} of {record.topic}-{record.partition} "
        f"offset {record.offset}; {advice}"
    )
    object.__setattr__(error, _NOTES, [*getattr(error, _NOTES, ()), note])
