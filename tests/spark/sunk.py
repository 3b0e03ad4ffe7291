"""Helpers of the sink's tests: writing streams, and reading the result from Kafka."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiokafka_lite import AIOKafkaConsumer, TopicPartition
from aiokafka_lite.admin import AIOKafkaAdminClient
from tools.kafka import RealKafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

PATIENCE = 400  # seconds one query may take
ENDING = ["PrepareCommit", "PrepareAbort", "PrepareEpochFence"]
"""States of a transaction that has ended, but whose markers may not be written yet."""


def lines_of_text(
    spark: "SparkSession", folder: Path, *, files: int, lines: int, prefix: str
) -> "DataFrame":
    """A stream of the values "PREFIX NUMBER", two files per epoch."""
    source = folder / "in"
    source.mkdir()
    for file in range(files):
        numbers = range(file * lines, (file + 1) * lines)
        text = "".join(f"{prefix} {number}\n" for number in numbers)
        (source / f"{file}.txt").write_text(text)
    return spark.readStream.format("text").option("maxFilesPerTrigger", 2).load(str(source))


def write_stream(
    frame: "DataFrame", kafka: RealKafka, folder: Path, **options: str
) -> "StreamingQuery":
    """Write everything that a stream has, in one run of its query.

    Raises:
        StreamingQueryException: The query failed.
    """
    query = (
        frame.writeStream.format("crashing_sink")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(PATIENCE), "the query did not end in time"
    finally:
        query.stop()
    return query


def stored(
    kafka: RealKafka, topic: str, partitions: int, isolation: str = "read_committed"
) -> list[Any]:
    """All records of a topic, by partition and offset."""
    return asyncio.run(_stored(kafka, topic, partitions, isolation))


async def _stored(kafka: RealKafka, topic: str, partitions: int, isolation: str) -> list[Any]:
    places = [TopicPartition(topic, number) for number in range(partitions)]
    found: list[Any] = []
    servers = kafka.bootstrap_servers
    async with (
        AIOKafkaConsumer(
            bootstrap_servers=servers, isolation_level=isolation, auto_offset_reset="earliest"
        ) as consumer,
        AIOKafkaConsumer(bootstrap_servers=servers) as other,
        AIOKafkaAdminClient(bootstrap_servers=servers) as admin,
    ):
        consumer.assign(places)
        async with asyncio.timeout(PATIENCE):
            log_ends = await other.end_offsets(places)
            while True:  # the last markers follow, unless a transaction is still open
                ending = (await admin.list_transactions(states=ENDING)).valid()
                ends = await consumer.end_offsets(places)
                if not ending or all(ends[each] >= log_ends[each] for each in places):
                    break
                await asyncio.sleep(0.1)
            while any([await consumer.position(each) < ends[each] for each in places]):
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    found += records
    return sorted(found, key=lambda record: (record.partition, record.offset))
