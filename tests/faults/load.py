"""The load of a chaos run: thousands of senders of different kinds, which share a rate.

Each sender has its own lane and sends its records one after the other, so they must be in order in
each partition, regardless of faults.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Final

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import IllegalArgumentError, KafkaError, KafkaTimeoutError, ProducerClosed
from tests.faults.ledger import Ledger

__all__ = ["Load"]

WINDOW: Final = 300  # records that a sender of `send` has in flight
MANY: Final = 100  # records of a `send_many`
BY_HAND: Final = 20  # records of a `send_batch`
IMPATIENT: Final = 17  # one in this many `send_and_wait` is cancelled if it takes long


class _Pace:
    """Grants a number of turns per second; turns unused for a second are lost."""

    def __init__(self, rate: float) -> None:
        self._every = 1 / rate
        self._next = 0.0

    async def take(self, turns: int = 1) -> None:
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - 1) + turns * self._every
        if self._next > now:
            await asyncio.sleep(self._next - now)


class Load:
    """Senders of one producer.

    Args:
        producer: Started.
        ledger: Records all events.
        topics: The topics to send to; each sender uses one.
        rate: Records per second in total.
        senders: The number of `send_and_wait` senders; there are a twentieth as many of each other
        kind.
        seed: The seed of the differences between senders.
    """

    def __init__(
        self,
        producer: AIOKafkaProducer,
        ledger: Ledger,
        topics: Sequence[str],
        *,
        rate: float,
        senders: int,
        seed: int,
    ) -> None:
        self._producer = producer
        self._ledger = ledger
        self._topics = topics
        self._pace = _Pace(rate)
        self._random = random.Random(seed)
        self._ends = asyncio.Event()
        few = max(2, senders // 20)
        kinds = [self._send_and_wait] * senders
        kinds += [self._send] * few + [self._send_many] * few + [self._send_batch] * (few // 2)
        self._tasks = [
            asyncio.create_task(kind(lane), name=f"{kind.__name__} {lane}")
            for lane, kind in enumerate(kinds)
        ]

    async def finish(self) -> None:
        """Let every sender end after its records in flight.

        Raises:
            ExceptionGroup: Unexpected errors of senders.
        """
        self._ends.set()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        failed = [result for result in results if isinstance(result, Exception)]
        if failed:
            raise ExceptionGroup("senders failed", failed)

    def _where(self, lane: int) -> tuple[str, bytes | None]:
        """A lane's topic and key; one in ten has no key, and its records spread."""
        return self._topics[lane % len(self._topics)], None if lane % 10 == 9 else b"key %d" % lane

    async def _settle(self, number: int, ack: Any) -> None:
        try:
            self._ledger.acked(number, await ack)
        except KafkaError as error:
            self._ledger.failed(number, error)

    async def _send_and_wait(self, lane: int) -> None:
        topic, key = self._where(lane)
        ledger, send = self._ledger, self._producer.send_and_wait
        while not self._ends.is_set():
            await self._pace.take()
            number, value = ledger.enter(topic, lane)
            try:
                if number % IMPATIENT:
                    told = await send(topic, value, key)
                else:
                    told = await asyncio.wait_for(send(topic, value, key), self._random.random())
                assert told is not None
                ledger.acked(number, told)
            except TimeoutError:
                ledger.abandoned(number)
            except ProducerClosed as error:
                ledger.failed(number, error)
                return
            except KafkaError as error:
                ledger.failed(number, error)

    async def _send(self, lane: int) -> None:
        topic, key = self._where(lane)
        while not self._ends.is_set():
            under_way = []
            try:
                for _ in range(self._random.randint(1, WINDOW)):
                    await self._pace.take()
                    number, value = self._ledger.enter(topic, lane)
                    try:
                        under_way.append((number, await self._producer.send(topic, value, key)))
                    except KafkaTimeoutError as error:
                        self._ledger.refused(number, error)
            except ProducerClosed as error:
                self._ledger.refused(number, error)
                return
            finally:
                for number, ack in under_way:
                    await self._settle(number, ack)

    async def _send_many(self, lane: int) -> None:
        topic, key = self._where(lane)
        while not self._ends.is_set():
            await self._pace.take(MANY)
            entered = [self._ledger.enter(topic, lane) for _ in range(MANY)]
            numbers, values = [n for n, _ in entered], [v for _, v in entered]
            failure: KafkaError | None = None
            try:
                acks = await self._producer.send_many(topic, values, keys=[key] * MANY)
            except (KafkaTimeoutError, ProducerClosed) as error:
                failure = error
                acks = error.sent  # type: ignore[union-attr]  # documented by send_many
                for number in numbers[len(acks) :]:
                    self._ledger.refused(number, error)
            for number, ack in zip(numbers, acks, strict=False):
                await self._settle(number, ack)
            if isinstance(failure, ProducerClosed):
                return

    async def _send_batch(self, lane: int) -> None:
        topic, key = self._where(lane)
        partition = lane % 3
        while not self._ends.is_set():
            await self._pace.take(BY_HAND)
            batch = self._producer.create_batch()
            numbers = []
            for _ in range(BY_HAND):
                number, value = self._ledger.enter(topic, lane)
                if batch.append(timestamp=None, key=key, value=value) is None:
                    self._ledger.refused(number, IllegalArgumentError("the batch is full"))
                    break
                numbers.append(number)
            try:
                ack = await self._producer.send_batch(batch, topic, partition=partition)
                first = await ack
            except KafkaError as error:
                for number in numbers:
                    self._ledger.failed(number, error)
                if isinstance(error, ProducerClosed):
                    return
            else:
                assert first is not None
                for index, number in enumerate(numbers):
                    offset = -1 if first.offset < 0 else first.offset + index
                    self._ledger.acked(number, first._replace(offset=offset))
