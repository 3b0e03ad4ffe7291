"""`send` and `send_and_wait`, which run for every record: the readable specification.

Both append at once and return an object that asyncio accepts as a coroutine (`create_task`,
`gather`, `wait_for`, `iscoroutine`), although it has nothing left to run: a real coroutine per
record would cost as much as appending it. A record is sent even if its object is not awaited.
Errors are raised by the await, as with a coroutine.

Non-obvious:
- Only a call in the producer's running loop appends. Any other call (in another thread, for
  `run_coroutine_threadsafe`, or before the loop runs, for `run_until_complete`) returns a coroutine
  that appends when it is awaited in that loop, and raises when it is awaited in another.
- The native build reads the loop's `_thread_id` if it has one: asking asyncio for the running
  loop would cost a system call for every record (Python 3.11).
- A call that must wait (for memory, for the topic) or that failed returns a real coroutine, which
  warns if it is never awaited.
- `send_and_wait` calls a `send` that a subclass overrides or a tracer patched, as in aiokafka. It
  appends directly to the batch only if the class has the `send` defined here.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator, Sequence
from types import TracebackType
from typing import Any, Generic

from aiokafka_lite.producer.batching._accumulator_python import AppendCore, Blocked
from aiokafka_lite.producer.batching._ack_python import Ack, Wait
from aiokafka_lite.producer.record_serializers import K, V
from aiokafka_lite.structs import Acknowledged

__all__ = ["SendCalls", "SendResult", "StoredResult", "mark_as_coroutine_function"]


def mark_as_coroutine_function(function: Callable[..., object]) -> None:
    """Make asyncio (and so mocks) treat a function as if it was defined with `async def`."""
    mark = getattr(inspect, "markcoroutinefunction", None)  # from Python 3.12 on
    if mark is not None:
        mark(function)
    else:
        function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]


class SendResult(Coroutine[Any, Any, Ack]):
    """The result of `send`: awaiting it returns the record's ack without suspending."""

    __slots__ = ("_ack",)

    def __init__(self, ack: Ack) -> None:
        self._ack = ack

    @property
    def __name__(self) -> str:  # as asyncio shows it
        return "AIOKafkaProducer.send"

    def __await__(self) -> Generator[Any, Any, Ack]:
        yield from ()
        return self._ack

    def send(self, value: Any) -> Any:
        raise StopIteration(self._ack)

    def throw(
        self,
        kind: Any,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        raise_thrown(kind, value, traceback)

    def close(self) -> None:
        pass


class StoredResult(Coroutine[Any, Any, Acknowledged]):
    """The result of `send_and_wait`: awaiting it waits for the record's outcome."""

    __slots__ = ("_ack", "_wait")

    def __init__(self, ack: Ack) -> None:
        self._ack = ack
        self._wait: Wait | None = None  # of the task that runs this itself

    @property
    def __name__(self) -> str:
        return "AIOKafkaProducer.send_and_wait"

    def __await__(self) -> Generator[Any, Any, Acknowledged]:
        return self._ack.__await__()

    def send(self, value: Any) -> Any:
        if self._wait is None:
            self._wait = Wait(self._ack, True)
        return self._wait.send(value)

    def throw(
        self,
        kind: Any,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        raise_thrown(kind, value, traceback)

    def close(self) -> None:
        pass


def raise_thrown(kind: Any, value: Any, traceback: TracebackType | None) -> None:
    """Raise an exception that was thrown into an object without a frame to catch it."""
    if value is None:
        value = kind() if isinstance(kind, type) else kind
    if traceback is not None:
        value = value.with_traceback(traceback)
    raise value


class SendCalls(Generic[K, V]):
    """The two producer methods that are called for every record; `AIOKafkaProducer` has the rest.

    Args:
        core: Accepts the records; its loop is the producer's.
        append: Called instead of `core.append`, if given.
    """

    def __init__(
        self, core: AppendCore, append: Callable[..., Ack | Blocked] | None = None
    ) -> None:
        self._append: Callable[..., Ack | Blocked] = core.append if append is None else append
        self._home = core.loop

    def _here(self) -> bool:
        """True if the producer's event loop runs in this thread."""
        return asyncio._get_running_loop() is self._home

    def _append_here(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Any,
    ) -> Ack | Blocked:
        """Append a record now.

        Raises:
            IllegalStateError: The call is made in another event loop or thread.
        """
        if not self._here():
            self._check_home()
        return self._append(topic, value, key, partition, timestamp_ms, headers)

    def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> Coroutine[Any, Any, Ack]:
        """Append a record to its batch; wait only for memory or the topic's metadata.

        The call itself appends the record, unless it has to wait. In that case the record is lost
        if the result is never awaited, with the usual warning. Errors are raised by the await. A
        call in another thread, or while the producer's event loop does not run, does nothing until
        it is awaited in that loop.

        Args:
            topic: The topic's name.
            value: Bytes, or what `value_serializer` takes. None is a tombstone.
            key: Bytes, or what `key_serializer` takes; records with equal keys go to one partition.
            partition: The partition's number; by default the partitioner chooses.
            timestamp_ms: Milliseconds since the epoch; by default now.
            headers: (str, bytes or None) pairs.

        Returns:
            An ack: an awaitable, future-like object whose result is the `RecordMetadata`.

        Raises:
            UnknownTopicTimeoutError: The topic did not exist within `max_block_ms`.
            KafkaTimeoutError: No memory or no topic metadata was available in this time.
            MessageSizeTooLargeError: The record is larger than `max_request_size`, or than
                all of `buffer_memory`. Nothing was buffered.
            TopicAuthorizationFailedError: The broker denied access to the topic.
            InvalidTopicError: The broker refused the name; or no request can carry it, in which
                case no request is sent.
            ProducerClosed: The producer was stopped.
            IllegalStateError: The producer was not started, or this is awaited in another event
                loop than the producer's.
            TypeError: A key or value is not bytes (after its serializer), or another argument
                has the wrong type; the message names it.
            IllegalArgumentError: (a ValueError) The topic has no such partition, a timestamp is
                out of range, or a header's name is not valid UTF-8.

        Cancellation: a record that still waits is not sent; one in its batch is delivered.
        """
        if not self._here():
            return self._send_later(topic, value, key, partition, timestamp_ms, headers)
        try:
            result = self._append(topic, value, key, partition, timestamp_ms, headers)
        except Exception as error:  # the await raises it
            return self._refuse(error)
        return SendResult(result) if isinstance(result, Ack) else self._send_blocked(result)

    def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> Coroutine[Any, Any, Acknowledged]:
        """Send a record and wait until it is acknowledged; see `send`.

        Returns:
            The record's `RecordMetadata`; None with `acks=0`.

        Raises:
            DeliveryTimeoutError: The record was not acknowledged within `delivery_timeout_ms`;
                the message says whether it may have been stored.
            KafkaError: The broker refused the record.

        Cancellation: stops the wait, never the delivery.
        """
        if type(self).send is not _SEND:
            return self._await_send(topic, value, key, partition, timestamp_ms, headers)
        if not self._here():
            return self._send_and_wait_later(topic, value, key, partition, timestamp_ms, headers)
        try:
            result = self._append(topic, value, key, partition, timestamp_ms, headers)
        except Exception as error:  # the await raises it
            return self._refuse(error)
        if isinstance(result, Ack):
            return StoredResult(result)
        return self._send_blocked_and_wait(result)

    # Rare cases, which `AIOKafkaProducer` implements

    def _check_home(self) -> None:
        """Raise unless this is the producer's own process and event loop."""
        raise NotImplementedError

    def _send_blocked(self, blocked: Blocked) -> Coroutine[Any, Any, Ack]:
        """Wait for the memory or topic that a record lacks, until it is in a batch."""
        raise NotImplementedError

    def _send_blocked_and_wait(self, blocked: Blocked) -> Coroutine[Any, Any, Acknowledged]:
        """Like `_send_blocked`, then wait until the record is acknowledged."""
        raise NotImplementedError

    def _send_later(self, *fields: Any) -> Coroutine[Any, Any, Ack]:
        """Call `send` when awaited."""
        raise NotImplementedError

    def _send_and_wait_later(self, *fields: Any) -> Coroutine[Any, Any, Acknowledged]:
        """Call `send_and_wait` when awaited."""
        raise NotImplementedError

    def _await_send(self, *fields: Any) -> Coroutine[Any, Any, Acknowledged]:
        """Call an overridden `send` when awaited, then wait until the record is acknowledged."""
        raise NotImplementedError

    def _refuse(self, error: Exception) -> Coroutine[Any, Any, Any]:
        """Raise the error when awaited."""
        raise NotImplementedError


_SEND = SendCalls.send

mark_as_coroutine_function(SendCalls.send)
mark_as_coroutine_function(SendCalls.send_and_wait)
