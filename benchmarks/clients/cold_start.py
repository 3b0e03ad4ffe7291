"""Measures how long a new Python process takes until its first record.

`first_ack` is the time from before the `import` of the client to the first acknowledged record.
`first_record` is the time from before `start()` (confluent-kafka: the constructor) to the first
record read from a topic with records, without a group. Each sample runs in its own process. The
modules of the client are on the disk as bytecode, and the broker has served another client before.

`python -m benchmarks.clients.cold_start CLIENT KIND WORK` takes one sample. Each function imports
the client that it measures, so no sample includes the modules of another client.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.work import Work

VALUE = b"v" * 100


class _Watch:
    """Measures wall-clock time and CPU since its creation."""

    def __init__(self) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._cpu = usage.ru_utime + usage.ru_stime
        self._began = time.perf_counter()

    def read(self) -> dict[str, float]:
        wall = time.perf_counter() - self._began
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "cold_ms": wall * 1e3,
            "cold_cpu_ms": (usage.ru_utime + usage.ru_stime - self._cpu) * 1e3,
        }


def _ours_first_ack(work: Work) -> dict[str, float]:
    watch = _Watch()
    import asyncio

    from aiokafka_lite import AIOKafkaProducer

    return asyncio.run(_first_ack(AIOKafkaProducer, work, watch))


def _aiokafka_first_ack(work: Work) -> dict[str, float]:
    watch = _Watch()
    import asyncio

    from aiokafka import AIOKafkaProducer

    return asyncio.run(_first_ack(AIOKafkaProducer, work, watch))


def _confluent_first_ack(work: Work) -> dict[str, float]:
    watch = _Watch()
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": work.bootstrap, "enable.idempotence": True, "linger.ms": 0}
    )
    errors: list[object] = []
    producer.produce(work.topic, VALUE, on_delivery=lambda error, _: errors.append(error))
    while not errors:
        producer.poll(1)
    figures = watch.read()
    if errors != [None]:
        raise RuntimeError(f"the record was not stored: {errors[0]}")
    return figures


async def _first_ack(
    producer_class: Callable[..., Any], work: Work, watch: _Watch
) -> dict[str, float]:
    producer = producer_class(bootstrap_servers=work.bootstrap, enable_idempotence=True)
    await producer.start()
    try:
        await producer.send_and_wait(work.topic, VALUE)
        return watch.read()
    finally:
        await producer.stop()


def _ours_first_record(work: Work) -> dict[str, float]:
    import asyncio

    from aiokafka_lite import AIOKafkaConsumer

    return asyncio.run(_first_record(AIOKafkaConsumer, work))


def _aiokafka_first_record(work: Work) -> dict[str, float]:
    import asyncio

    from aiokafka import AIOKafkaConsumer

    return asyncio.run(_first_record(AIOKafkaConsumer, work))


def _confluent_first_record(work: Work) -> dict[str, float]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    watch = _Watch()
    consumer = Consumer({"bootstrap.servers": work.bootstrap, "group.id": "not-joined"})
    # The partitions are assigned manually, because a group would add the time of the rebalance.
    partitions = range(work.partitions)
    consumer.assign([TopicPartition(work.topic, p, OFFSET_BEGINNING) for p in partitions])
    record = None
    while record is None:
        record = consumer.poll(1)
    figures = watch.read()
    if record.error() is not None:
        raise RuntimeError(f"no record was read: {record.error()}")
    consumer.close()
    return figures


async def _first_record(consumer_class: Callable[..., Any], work: Work) -> dict[str, float]:
    consumer = consumer_class(
        work.topic, bootstrap_servers=work.bootstrap, auto_offset_reset="earliest"
    )
    watch = _Watch()
    await consumer.start()
    try:
        await consumer.getone()
        return watch.read()
    finally:
        await consumer.stop()


SAMPLES: dict[str, Callable[[Work], dict[str, float]]] = {
    "ours first_ack": _ours_first_ack,
    "aiokafka first_ack": _aiokafka_first_ack,
    "confluent first_ack": _confluent_first_ack,
    "ours first_record": _ours_first_record,
    "aiokafka first_record": _aiokafka_first_record,
    "confluent first_record": _confluent_first_record,
}


def _medians(client: str, kind: str, work: Work) -> dict[str, float]:
    """Return the medians of 20 samples."""
    command = [sys.executable, "-m", "benchmarks.clients.cold_start", client, kind]
    samples = [
        json.loads(
            subprocess.run([*command, work.dump()], check=True, stdout=subprocess.PIPE).stdout
        )
        for _ in range(20)
    ]
    return {name: statistics.median(each[name] for each in samples) for name in samples[0]}


def ours_first_ack(work: Work) -> dict[str, float]:
    return _medians("ours", "first_ack", work)


def aiokafka_first_ack(work: Work) -> dict[str, float]:
    return _medians("aiokafka", "first_ack", work)


def confluent_first_ack(work: Work) -> dict[str, float]:
    return _medians("confluent", "first_ack", work)


def ours_first_record(work: Work) -> dict[str, float]:
    return _medians("ours", "first_record", work)


def aiokafka_first_record(work: Work) -> dict[str, float]:
    return _medians("aiokafka", "first_record", work)


def confluent_first_record(work: Work) -> dict[str, float]:
    return _medians("confluent", "first_record", work)


if __name__ == "__main__":
    _, _client, _kind, _work = sys.argv
    print(json.dumps(SAMPLES[f"{_client} {_kind}"](Work.load(_work))))
