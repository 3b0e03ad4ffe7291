"""`send` and `send_and_wait`, which run for every record: the readable specification.

Both append at once and return an object that asyncio takes for a coroutine (`create_task`,
`gather`, `wait_for` and `iscoroutine` do), though nothing of it is left to run: a coroutine a
record would cost as much as appending it. A record whose object is not awaited is sent like any
other. What went wrong comes out of the await, as it does out of a coroutine.

Non-obvious:
- Only a call in the producer's running loop appends. Any other one (in another thread, for
  `run_coroutine_threadsafe`, or before the loop runs, for `run_until_complete`) returns a coroutine
  that appends when it is awaited in that loop, and raises when it is awaited in another.
- The native build reads the loop's `_thread_id` where it has one: asking asyncio for the running
  loop would cost a system call for every record (Python 3.11).
- What has to wait (for memory, for the topic) or failed is a real coroutine, and tells as one if
  it is never awaited.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator, Sequence
from types import TracebackType
from typing import Any

from aiokafka_lite.producer.batching._accumulator_python import AppendCore, Blocked
from aiokafka_lite.producer.batching._ack_python import Ack, Wait
from aiokafka_lite.structs import Acknowledged

__all__ = ["Sends", "Sent", "Stored", "mark_as_coroutine_function"]


def mark_as_coroutine_function(function: Callable[..., object]) -> None:
    """Have asyncio (and so mocks) take a function for one that was defined with `async def`."""
    mark = getattr(inspect, "markcoroutinefunction", None)  # from Python 3.12 on
    if mark is not None:
        mark(function)
    else:
        function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]


class Sent(Coroutine[Any, Any, Ack]):
    """What `send` returns: its await gives the record's ack, without a pause."""

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


class Stored(Coroutine[Any, Any, Acknowledged]):
    """What `send_and_wait` returns: its await ends when the record's does."""

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
    """Raise what was thrown into something that has no frame to catch it."""
    if value is None:
        value = kind() if isinstance(kind, type) else kind
    if traceback is not None:
        value = value.with_traceback(traceback)
    raise value


class Sends:
    """The two calls of a producer's face that are made for every record.

    Args:
        core: Where the records go, and in which loop.
        append: What is called in place of `core.append`, if something stands before it.
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
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> Coroutine[Any, Any, Ack]:
        """Append a record to its batch; wait only for memory, or to learn about the topic.

        The record is appended by the call itself, unless it has to wait: then it is lost if
        nobody awaits it, with the usual warning. All that is raised comes out of the await. A
        call in another thread, or while the producer's event loop does not run, does nothing before
        it is awaited in that loop.

        Args:
            topic: Its name.
            value: Bytes, or what `value_serializer` takes. None is a tombstone.
            key: Bytes, or what `key_serializer` takes; records of a key go to one partition.
            partition: Its number; by default the partitioner chooses.
            timestamp_ms: Milliseconds since the epoch; by default now.
            headers: (str, bytes or None) pairs.

        Returns:
            An awaitable, and a future to asyncio, of the `RecordMetadata`.

        Raises:
            KafkaTimeoutError: No memory, or no topic, within `max_block_ms`.
            MessageSizeTooLargeError: The record is larger than `max_request_size`; or than
                all of `buffer_memory`. Nothing was buffered.
            TopicAuthorizationFailedError: The broker's answer.
            InvalidTopicError: Likewise; at once for a name that no request can carry.
            ProducerClosed: The producer was stopped.
            IllegalStateError: It was not started; or this is awaited in another event loop than the
                producer's.
            TypeError: A key or value that is not bytes (after its serializer), or another argument
                of a wrong type; it is named.
            IllegalArgumentError: (a ValueError) the topic has no such partition, a timestamp out
                of range, or a header's name that is no UTF-8.

        Cancellation: a record that still waits is not sent; one in its batch is delivered.
        """
        if not self._here():
            return self._send_later(topic, value, key, partition, timestamp_ms, headers)
        try:
            result = self._append(topic, value, key, partition, timestamp_ms, headers)
        except Exception as error:  # it comes out of the await
            return self._refuse(error)
        return Sent(result) if isinstance(result, Ack) else self._send_blocked(result)

    def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> Coroutine[Any, Any, Acknowledged]:
        """Send a record and wait until it is acknowledged; see `send`.

        Returns:
            Where it was stored; None with `acks=0`.

        Raises:
            DeliveryTimeoutError: It was not acknowledged within `delivery_timeout_ms`; the
                message tells whether it may have been stored.
            KafkaError: The broker refused it.

        Cancellation: stops the wait, never the delivery.
        """
        if not self._here():
            return self._send_and_wait_later(topic, value, key, partition, timestamp_ms, headers)
        try:
            result = self._append(topic, value, key, partition, timestamp_ms, headers)
        except Exception as error:  # it comes out of the await
            return self._refuse(error)
        if isinstance(result, Ack):
            return Stored(result)
        return self._send_blocked_and_wait(result)

    # What is rare, and the face's

    def _check_home(self) -> None:
        """Raise unless the producer may be used here."""
        raise NotImplementedError

    def _send_blocked(self, blocked: Blocked) -> Coroutine[Any, Any, Ack]:
        """Wait for what a record lacks, until it is in a batch."""
        raise NotImplementedError

    def _send_blocked_and_wait(self, blocked: Blocked) -> Coroutine[Any, Any, Acknowledged]:
        """And until it is acknowledged."""
        raise NotImplementedError

    def _send_later(self, *fields: Any) -> Coroutine[Any, Any, Ack]:
        """`send`, when it is awaited."""
        raise NotImplementedError

    def _send_and_wait_later(self, *fields: Any) -> Coroutine[Any, Any, Acknowledged]:
        """`send_and_wait`, when it is awaited."""
        raise NotImplementedError

    def _refuse(self, error: Exception) -> Coroutine[Any, Any, Any]:
        """Raise an error when it is awaited."""
        raise NotImplementedError


mark_as_coroutine_function(Sends.send)
mark_as_coroutine_function(Sends.send_and_wait)
