"""The work of `bench`: measures, and prints the results.

`produce` measures the latency of one record in every run of `RUN`, from the call of `send_many` to
the acknowledgement; reading the clock for each record would slow down the others. `latency`
measures every record, from before the send until the consumer has it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiokafka_lite.cli.connection.lookup import open_lookup
from aiokafka_lite.cli.failures import FAILED, OK, CommandError, complain
from aiokafka_lite.cli.transfer import STOP_MS
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.producer.producer import AIOKafkaProducer
from aiokafka_lite.structs import TopicPartition

__all__ = ["Measured", "measure"]

RUN: Final = 500
"""Records that are sent by one call."""
PENDING: Final = 200
"""Maximum number of runs without acknowledgements."""
STUCK: Final = 30.0
"""Seconds without a record after which `consume` and `latency` give up."""
_PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)


class Measured:
    """Counts after the warm-up.

    Args:
        warmup: Seconds that do not count.
    """

    def __init__(self, warmup: float) -> None:
        self.latencies: list[float] = []  # seconds
        self._warmup = warmup
        self._records = 0
        self._bytes = 0
        self._first = time.perf_counter()
        self._began: tuple[float, float] | None = None
        self._ended = (self._first, time.process_time())

    def add(self, records: int, size: int) -> None:
        """Count completed records, and their bytes."""
        now = (time.perf_counter(), time.process_time())
        if self._began is None:
            if now[0] - self._first < self._warmup:
                return
            if self._warmup:
                self._began = now  # these end the warm-up
                self.latencies.clear()
                return
            self._began = (self._first, self._ended[1])
        self._records += records
        self._bytes += size
        self._ended = now

    def result(self) -> dict[str, float | int | None]:
        """Return the rates, the CPU time and the percentiles of the latencies, in milliseconds."""
        if self._began is None or not self._records:
            raise CommandError("nothing was measured: fewer seconds of --warmup, or more --records")
        took = max(self._ended[0] - self._began[0], 1e-9)
        cpu = self._ended[1] - self._began[1]
        found: dict[str, float | int | None] = {
            "records": self._records,
            "seconds": round(took, 3),
            "records_per_second": round(self._records / took),
            "megabytes_per_second": round(self._bytes / took / 1e6, 3),
            "cpu_seconds": round(cpu, 3),
            "cpu_microseconds_per_record": round(cpu / self._records * 1e6, 3),
        }
        ordered = sorted(self.latencies)
        if ordered:
            for percent in _PERCENTILES:
                place = min(int(len(ordered) * percent / 100), len(ordered) - 1)
                found[f"p{percent:g}_ms"] = round(ordered[place] * 1000, 3)
            found["max_ms"] = round(ordered[-1] * 1000, 3)
        return found


async def measure(
    args: argparse.Namespace,
    producer: dict[str, Any],
    consumer: dict[str, Any],
    timeout: float,
) -> int:
    """Run the action and print the measurements; return the exit status."""
    async with open_lookup(consumer, timeout) as lookup:
        partitions = (await lookup.partitions([args.topic]))[args.topic]
    measured = Measured(args.warmup)
    failures = 0
    if args.action == "produce":
        failures = await _produce(args, producer, measured)
    elif args.action == "consume":
        await _consume(args, consumer, partitions, measured)
    else:
        await _latency(args, producer, consumer, partitions, measured)
    result = measured.result()
    if args.json:
        print(json.dumps({"failures": failures, **result}))
    else:
        for name, value in result.items():
            print(f"{name.replace('_', ' '):<28}{value:,}")
    if failures:
        complain("bench", f"{failures} records failed")
    return FAILED if failures else OK


async def _produce(args: argparse.Namespace, arguments: dict[str, Any], measured: Measured) -> int:
    failures = 0
    values = [os.urandom(args.size) for _ in range(RUN)]
    loop = asyncio.get_running_loop()
    clock = time.perf_counter

    async def settle(acks: Sequence[Any]) -> int:
        failed = 0
        for ack in acks:
            try:
                await ack
            except KafkaError as error:
                if not (failed or failures):
                    complain("bench", error)  # the first one: the others have the same reason
                failed += 1
        measured.add(len(acks) - failed, (len(acks) - failed) * args.size)
        return failed

    def timer(sent: float) -> Callable[[Any], None]:
        def on_done(ack: Any) -> None:
            if not ack.cancelled() and ack.exception() is None:
                measured.latencies.append(clock() - sent)

        return on_done

    async with AIOKafkaProducer(**arguments, stop_timeout_ms=STOP_MS) as producer:
        began, sent, waiting = loop.time(), 0, []
        # At a rate, a run is a hundredth of a second, so that records are spread evenly.
        size = RUN if args.rate is None else max(1, min(RUN, args.rate // 100))
        while sent < args.records:
            if args.rate is not None:
                await asyncio.sleep(max(0.0, began + sent / args.rate - loop.time()))
            some = values[: min(size, args.records - sent)]
            at = clock()
            acks = await producer.send_many(args.topic, some)
            acks[-1].add_done_callback(timer(at))
            waiting.append(acks)
            sent += len(some)
            if len(waiting) > PENDING or (args.rate is not None and waiting[0][-1].done()):
                failures += await settle(waiting.pop(0))
        for acks in waiting:
            failures += await settle(acks)
    return failures


async def _consume(
    args: argparse.Namespace, arguments: dict[str, Any], partitions: list[int], measured: Measured
) -> None:
    left = args.records
    async with AIOKafkaConsumer(**arguments, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(args.topic, number) for number in partitions])
        async with consumer.batches() as batches:
            while left > 0:
                try:
                    async with asyncio.timeout(STUCK):
                        batch = await anext(batches)
                except TimeoutError:
                    raise CommandError(
                        f"topic {args.topic!r} has fewer than {args.records} records: {left} are"
                        f" missing for {STUCK:g} s"
                    ) from None
                records = batch.records[:left]
                left -= len(records)
                measured.add(len(records), sum([len(each.value or b"") for each in records]))


async def _latency(
    args: argparse.Namespace,
    producer_arguments: dict[str, Any],
    consumer_arguments: dict[str, Any],
    partitions: list[int],
    measured: Measured,
) -> None:
    clock = time.perf_counter
    mark = os.urandom(8)
    async with (
        AIOKafkaProducer(**producer_arguments, stop_timeout_ms=STOP_MS) as producer,
        AIOKafkaConsumer(**consumer_arguments, auto_offset_reset="latest") as consumer,
    ):
        consumer.assign([TopicPartition(args.topic, number) for number in partitions])
        for each in consumer.assignment():
            await consumer.position(each)  # from here on, no record is missed
        for number in range(args.records):
            value = (mark + number.to_bytes(8, "big")).ljust(args.size, b".")
            sent = clock()
            await producer.send(args.topic, value)
            try:
                async with asyncio.timeout(STUCK):
                    while (await consumer.getone()).value != value:
                        pass  # of another producer
            except TimeoutError:
                raise CommandError(f"record {number + 1} did not arrive in {STUCK:g} s") from None
            measured.latencies.append(clock() - sent)
            measured.add(1, args.size)
