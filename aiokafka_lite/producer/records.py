"""The producer's send methods, which wait if a record cannot be appended yet."""

import asyncio
import copy
from collections.abc import Awaitable, Iterable, Sequence
from concurrent.futures import Future
from itertools import repeat
from typing import Any, Final, TypeVar

from aiokafka_lite import _arguments
from aiokafka_lite._home import check_home
from aiokafka_lite.abc import ProducerInterceptor
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import (
    BufferExhaustedError,
    IllegalArgumentError,
    IllegalStateError,
    KafkaTimeoutError,
    ProducerClosed,
)
from aiokafka_lite.producer.batching.accumulator import Ack, Blocked
from aiokafka_lite.producer.batching.batch_builder import BatchBuilder
from aiokafka_lite.producer.producer_interceptors import Interceptors
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.producer.send import Sends
from aiokafka_lite.producer.sending.sender import Sender
from aiokafka_lite.producer.threadsafe import HandOver
from aiokafka_lite.structs import Acknowledged

__all__ = ["Records"]

_T = TypeVar("_T")

_REMEDY: Final = (
    "call send_threadsafe() from there, or create a producer in the event loop that uses it"
)

_YIELD_EVERY: Final = 1000
"""Records after which `send_many` yields to the event loop: well under a millisecond."""


class Records(Sends):
    """Accepts records and passes them to the sender.

    Args:
        sender: Delivers the records.
        interceptors: Called with each record and its outcome.
    """

    _closed: bool | None
    _forked: IllegalStateError | None = None  # in a forked child: raised by every call
    _cluster: Cluster
    _name: str
    _loop: asyncio.AbstractEventLoop
    _options: ProducerOptions

    def __init__(self, sender: Sender, interceptors: Sequence[ProducerInterceptor]) -> None:
        self._sender = sender
        self._accumulator = accumulator = sender.accumulator
        self._interceptors: Interceptors | None = None
        if interceptors:
            self._interceptors = Interceptors(interceptors, accumulator.append, self._name)
            super().__init__(accumulator, self._interceptors.append)
        else:
            super().__init__(accumulator)
        self._hand_over = HandOver(
            self._loop, self._append, self._send_blocked, self._options.max_block
        )

    def send_nowait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> Ack:
        """Append a record to its batch at once, or raise; otherwise like `send`.

        For callbacks, and for applications that drop a record rather than wait.

        Raises:
            BufferExhaustedError: There is no free memory for the record.
            KafkaTimeoutError: The topic or the partition is not known yet. It is being looked up:
                try again, or await `partitions_for` first.
            IllegalStateError: The call is made in another event loop than the producer's, or in
                another thread: call `send_threadsafe` there.
        """
        result = self._append_here(topic, value, key, partition, timestamp_ms, headers)
        if isinstance(result, Ack):
            return result
        try:
            return self._send_blocked_now(result)
        except Exception as error:
            if self._interceptors is not None:
                self._interceptors.report(None, error)
            raise

    def _send_blocked_now(self, result: Blocked) -> Ack:
        """Append a record that was just blocked, or raise an error that says what it lacks."""
        accumulator, topic = self._accumulator, result.topic
        accumulator.size_for(result.key, result.value, result.headers)  # raises if it is too large
        known = self._cluster.metadata.topics.get(topic)
        if result.queue is None and known is not None and known.partitions:
            accumulator.adopt(topic, known.partitions, known.topic_id)
            again = accumulator.append_again(result)
            if isinstance(again, Ack):
                if self._interceptors is not None:
                    self._interceptors.follow(again)
                return again
            result = again
        if result.queue is not None:
            accumulator.hurry()
            raise BufferExhaustedError(
                f"no buffer_memory is free for a record to topic {topic!r}: "
                f"{self._sender.why_memory_is_short()}"
            )
        self._cluster.add_topic(_arguments.topic_name(topic))
        self._cluster.request_update()
        raise KafkaTimeoutError(
            f"topic {topic!r} or its partition is not in the metadata yet: try again"
        )

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        keys: Iterable[Any] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> list[Ack]:
        """Append many records, in order: like `send` for each, at a lower cost.

        Args:
            topic: The topic's name.
            values: The records' values; any iterable, consumed as memory allows.
            keys: The records' keys, as many as there are values; None for no keys.
            partition: The partition of all records; by default the partitioner chooses for each.
            timestamp_ms: The timestamp of all records; by default now.
            headers: The headers of all records.

        Returns:
            An ack for each record, in order.

        Raises:
            Any error of `send`, at the first record that causes it; and ValueError if there are
            more values than keys, or fewer. The records before it are sent: the error's
            attribute `sent` holds their acks.

        Cancellation: as for `send`; the records before are sent.
        """
        self._check_home()
        acks: list[Ack] = []
        append = self._append
        pairs = zip(values, repeat(None)) if keys is None else zip(values, keys, strict=True)
        budget = _YIELD_EVERY
        try:
            for value, key in pairs:
                result = append(topic, value, key, partition, timestamp_ms, headers)
                if not isinstance(result, Ack):
                    result = await self._send_blocked(result)
                acks.append(result)
                budget -= 1
                if not budget:
                    budget = _YIELD_EVERY
                    await asyncio.sleep(0)
        except BaseException as error:
            error.sent = acks  # type: ignore[attr-defined]  # documented above
            raise
        return acks

    def send_threadsafe(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> Future[Acknowledged]:
        """Send a record from any thread; otherwise like `send_and_wait`.

        The records of one thread keep their order. Serializers and the partitioner run in the
        producer's event loop.

        Returns:
            A `concurrent.futures.Future` of the `RecordMetadata`. It fails with any error of
            `send_and_wait`, and with ProducerClosed if the producer was stopped before the call
            or its event loop is closed before the outcome is known. Cancelling the future before
            the loop has taken the record keeps it from being sent.

        Raises:
            KafkaTimeoutError: 10,000 records were waiting for the loop, for `max_block_ms`.
            BufferExhaustedError: 10,000 records are waiting, and this is the loop's own thread.
            ProducerClosed: The producer's event loop is closed.
            IllegalStateError: This process is a forked child of the producer's process.
        """
        self._check_process()
        return self._hand_over.put((topic, value, key, partition, timestamp_ms, headers))

    def create_batch(self) -> BatchBuilder:
        """Create a batch for `send_batch`, to be filled by the application.

        Its limit is `max_batch_size`.
        """
        options = self._options
        return BatchBuilder(
            options.max_batch_size, options.key_serializer, options.value_serializer
        )

    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int) -> Ack:
        """Send a batch made by `create_batch`, after the earlier records of its partition.

        This closes the batch, which can be sent only once.

        Args:
            batch: The batch, with at least one record.
            topic: The topic's name.
            partition: The partition's number.

        Returns:
            An awaitable of the `RecordMetadata` of the first record; the others follow it.
            It fails with MessageSizeTooLargeError if the batch is too large for the broker:
            unlike batches that the producer fills, it is stored as a whole or not at all.

        Raises:
            IllegalArgumentError: (a ValueError) The batch is empty or was sent before, or the
                topic has no such partition.
            MessageSizeTooLargeError: It is larger than `max_request_size` or `buffer_memory`.
            TypeError: It was not made by `create_batch`.
            KafkaTimeoutError, ProducerClosed, IllegalStateError: As for `send`.

        Cancellation: a batch that still waits is not sent, and may be sent again.
        """
        self._check_home()
        _arguments.topic_name(topic)
        number = _arguments.partition_number(partition)
        if not isinstance(batch, BatchBuilder):
            raise TypeError(f"`batch` should come from create_batch(), not {batch!r}")
        self._check_open()
        builder, transaction = batch.take(), self._accumulator.transaction
        try:
            deadline = self._loop.time() + self._options.max_block
            await self._learn(topic, number, deadline)
            memory = self._accumulator.memory_for(builder.size)
            self._accumulator.hurry()
            buffer = await self._sender.pool.take(memory, deadline)
            return self._accumulator.add_batch(topic, number, builder, buffer, transaction)
        except BaseException:
            batch.give_back()
            raise

    async def flush(self) -> None:
        """Wait until every record sent before this call is stored or has failed.

        This includes records of `send_threadsafe`. Lingering batches are sent at once. The acks
        raise the errors; `flush` does not.

        Raises:
            IllegalStateError: This is another event loop, or a forked child of the process.

        Cancellation: stops the wait, never a delivery.
        """
        self._check_home()
        self._sender.hurry()
        await self._hand_over.drain()
        await self._sender.flush()

    def metrics(self) -> dict[str, float | None]:
        """Return the producer's metrics under Kafka's names (`record-send-total`, ...).

        Times are in milliseconds, sizes in bytes, rates per second. Averages and rates cover the
        last 30 to 60 seconds; `-total` counts from the start. An average or a maximum is None
        if nothing was measured (Java's is NaN), so the dict is valid JSON.
        `waiting-threads` counts the coroutines that wait for memory.
        """
        return self._sender.metric_values()

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions; wait until the topic is known.

        Raises:
            KafkaTimeoutError: The topic was not known within `max_block_ms`.
            InvalidTopicError: No request can carry the name, or the broker refused it.
            TypeError: The name is not a str.
            ProducerClosed: The producer was stopped.
            IllegalStateError: The producer was not started.
        """
        self._check_home()
        _arguments.topic_name(topic)
        self._check_open()
        deadline = self._loop.time() + self._options.max_block
        return set(await self._unless_closed(self._cluster.partitions_of(topic, deadline)))

    # Hooks of `Sends`

    async def _send_blocked(self, blocked: Blocked) -> Ack:
        interceptors = self._interceptors
        if interceptors is None:
            return await self._until_appended(blocked)
        try:
            ack = await self._until_appended(blocked)
        except BaseException as error:
            interceptors.report(None, error)
            raise
        interceptors.follow(ack)
        return ack

    async def _send_blocked_and_wait(self, blocked: Blocked) -> Acknowledged:
        return await (await self._send_blocked(blocked))

    def _take_handed_over(self) -> None:
        self._hand_over.serve()

    def _check_home(self) -> None:
        self._check_process()
        check_home(self._loop, repr(self), _REMEDY)

    async def _send_later(self, *fields: Any) -> Ack:
        self._check_home()
        result = self._append(*fields)
        return result if isinstance(result, Ack) else await self._send_blocked(result)

    async def _send_and_wait_later(self, *fields: Any) -> Acknowledged:
        return await (await self._send_later(*fields))

    async def _refuse(self, error: Exception) -> Any:
        raise error

    async def _until_appended(self, blocked: Blocked) -> Ack:
        deadline = self._loop.time() + self._options.max_block
        accumulator = self._accumulator
        transaction = accumulator.transaction
        if blocked.queue is None:  # fail at once if the record would fail once the topic is known
            _arguments.topic_name(blocked.topic)
            accumulator.size_for(blocked.key, blocked.value, blocked.headers)
        while True:
            if blocked.queue is None:
                await self._learn(blocked.topic, blocked.partition, deadline)
                result = accumulator.append_again(blocked, None, transaction)
            else:
                size = accumulator.size_for(blocked.key, blocked.value, blocked.headers)
                accumulator.hurry()
                memory = await self._sender.pool.take(size, deadline)
                result = accumulator.append_again(blocked, memory, transaction)
            if isinstance(result, Ack):
                return result
            blocked = result

    def _check_process(self) -> None:
        if self._forked is not None:
            raise copy.copy(self._forked)

    def _check_open(self) -> None:
        if isinstance(refusal := self._accumulator.refusal, IllegalStateError | ProducerClosed):
            raise copy.copy(refusal)

    async def _learn(self, topic: str, partition: int | None, deadline: float) -> None:
        """Look up a topic, and refresh it once if the partition is not known."""
        partitions = await self._unless_closed(self._cluster.partitions_of(topic, deadline))
        if partition is not None and partition not in partitions:
            await self._unless_closed(self._cluster.refresh(deadline))
            partitions = await self._unless_closed(self._cluster.partitions_of(topic, deadline))
            if partition not in partitions:
                raise IllegalArgumentError(
                    f"Unrecognized partition {partition}: topic {topic!r} has "
                    f"{len(partitions)} partition(s)"
                )
        known = self._cluster.metadata.topics.get(topic)
        self._accumulator.adopt(topic, partitions, None if known is None else known.topic_id)

    async def _unless_closed(self, waiting: Awaitable[_T]) -> _T:
        """Await a call to the cluster; raise ProducerClosed if `stop` closes the cluster."""
        try:
            return await waiting
        except IllegalStateError:
            if self._closed:
                raise ProducerClosed("the producer was stopped") from None
            raise
