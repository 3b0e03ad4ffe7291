"""`topic copy`: copies the records of a topic to another one, possibly in another cluster.

Keys, values, headers and timestamps are copied as bytes. Each partition is copied to the partition
with the same number, in order, unless the keys choose it.

Non-obvious:
- Only committed records are copied, up to the last stable offset at the start.
- If a copy is repeated after a failure, it copies records again, because it stores no offsets.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from collections import deque
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka_lite.cli.connection.client_arguments import consumer_arguments, producer_arguments
from aiokafka_lite.cli.connection.lookup import Lookup, open_lookup
from aiokafka_lite.cli.connection.settings import ENVIRONMENT, Settings, gather
from aiokafka_lite.cli.failures import FAILED, OK, CommandError, UsageError, complain
from aiokafka_lite.cli.offsets.offset_grammar import OffsetRange, parse_offset
from aiokafka_lite.cli.offsets.resolve import Resolved, resolve
from aiokafka_lite.cli.transfer import STOP_MS
from aiokafka_lite.cli.transfer.missing_ends import MissingEnds
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.producer.producer import AIOKafkaProducer
from aiokafka_lite.structs import TopicPartition

__all__ = ["CopyPlan", "copy_topic"]

PENDING: Final = 50_000
"""Maximum number of records without an acknowledgement."""
EMBEDDED: Final = "4-cGgsIJTKyin2--2CwHzQ"
"""The id of all embedded clusters, unless they have a seed. Their topics share ids, too."""
IDLE: Final = 0.1
"""Seconds without records after which the positions are compared with the ends."""


@dataclass(frozen=True)
class CopyPlan:
    """The checked arguments of `topic copy`: what to copy, and where."""

    source: str
    target: str
    offset: OffsetRange
    by_key: bool
    create: bool
    quiet: bool
    timeout: float
    reading: Mapping[str, Any] = field(repr=False)
    writing: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, args: argparse.Namespace) -> CopyPlan:
        """Check the arguments; prompt for the passwords of both clusters.

        Raises:
            UsageError: An argument is invalid, or two contradict each other.
        """
        settings = gather(args)
        there = _settings_there(args, settings)
        reading = consumer_arguments(settings)
        reading["isolation_level"] = "read_committed"
        reading["auto_offset_reset"] = "earliest"
        writing = producer_arguments(there, bulk=True)
        if args.source == args.target and there is settings:
            raise UsageError("a topic cannot be copied into itself")
        return cls(
            source=args.source,
            target=args.target,
            offset=parse_offset(args.offset or "start"),
            by_key=args.by_key,
            create=args.create,
            quiet=args.quiet,
            timeout=settings.timeout,
            reading=reading,
            writing=writing,
        )


def _settings_there(args: argparse.Namespace, here: Settings) -> Settings:
    """Return the settings of the target cluster: a profile, or the source's at other addresses."""
    if args.to_profile is not None and args.to is not None:
        raise UsageError("--to and --to-profile cannot be combined")
    if args.to is not None:
        return gather(argparse.Namespace(**(vars(args) | {"bootstrap": args.to})))
    if args.to_profile is None:
        return here
    nothing = dict.fromkeys(
        ("bootstrap", "config_file", "user", "password", "sasl_mechanism", "ca"), None
    )
    changed = vars(args) | nothing | {"profile": args.to_profile, "options": [], "tls": False}
    # AIOKAFKA_LITE_* variables override profiles, but they apply to the source.
    environ = {
        name: value
        for name, value in os.environ.items()
        if name == "AIOKAFKA_LITE_CONFIG" or not name.startswith(ENVIRONMENT)
    }
    return gather(argparse.Namespace(**changed), environ)


async def copy_topic(plan: CopyPlan) -> int:
    """Copy the records that exist now; return the exit status."""
    async with (
        open_lookup(plan.reading, plan.timeout) as here,
        open_lookup(plan.writing, plan.timeout) as there,
    ):
        known = (await here.partitions([plan.source]))[plan.source]
        await _check_target(plan, here, there, len(known))
        partitions = [TopicPartition(plan.source, number) for number in known]
        ranges = await resolve(here, partitions, plan.offset, committed=True, to_end=True)
        left = {tp: each for tp, each in ranges.items() if each.start < (each.end or 0)}
        copying = _Copying(plan, left)
        if left:
            await copying.run(here)
    if not plan.quiet:
        print(
            f"copied {copying.count} records from {plan.source} to {plan.target}", file=sys.stderr
        )
    return FAILED if copying.failures else OK


async def _check_target(plan: CopyPlan, here: Lookup, there: Lookup, count: int) -> None:
    """Refuse a target that cannot take the partitions; create it with --create."""
    try:
        found = len((await there.partitions([plan.target]))[plan.target])
    except CommandError:
        if not plan.create:
            raise CommandError(
                f"topic {plan.target!r} does not exist: create it, or add --create for a topic of"
                f" {count} partitions"
            ) from None
        from aiokafka_lite.admin import NewTopic

        admin = there.admin()
        created = await admin.create_topics([NewTopic(plan.target, count, -1)])
        created.raise_for_errors()
        await admin.wait_for_topics({plan.target: count})
        return
    if plan.source == plan.target and _is_same(
        here.cluster.metadata, there.cluster.metadata, plan.source
    ):
        raise UsageError(
            "both addresses belong to one cluster: a topic cannot be copied into itself"
        )
    if found < count and not plan.by_key:
        raise CommandError(
            f"topic {plan.target!r} has {found} partitions, {plan.source!r} has {count}: add"
            " --by-key to let the keys choose the partitions"
        )


def _is_same(one: Metadata, other: Metadata, topic: str) -> bool:
    """True if two topics are the same one, even if they are reached through different listeners."""
    if one.cluster_id != other.cluster_id:
        return False
    # Clusters share an id, too: Kafka's container image and many Compose files contain a fixed one.
    topic_ids = [each.topics[topic].topic_id for each in (one, other)]
    if None not in topic_ids and topic_ids[0] != topic_ids[1]:
        return False
    if one.cluster_id not in (None, EMBEDDED):
        return True
    addresses = [
        {(node.host, node.port) for node in each.brokers.values()} for each in (one, other)
    ]
    return not addresses[0].isdisjoint(addresses[1])


class _Copying:
    """One run: reads and sends until every partition is at its end.

    Attributes:
        count: Records that were acknowledged.
        failures: Records that failed.
    """

    def __init__(self, plan: CopyPlan, ranges: dict[TopicPartition, Resolved]) -> None:
        self.count = 0
        self.failures = 0
        self._plan = plan
        self._starts = {tp: each.start for tp, each in ranges.items()}
        self._ends = {tp: each.end or 0 for tp, each in ranges.items()}
        self._waiting: deque[tuple[TopicPartition, int, Awaitable[Any]]] = deque()

    async def run(self, here: Lookup) -> None:
        """Copy; ends after the first failure, because the next records would fail, too.

        Raises:
            CommandError: The source was deleted, or lost records.
        """
        loop = asyncio.get_running_loop()
        missing = MissingEnds(here, self._ends, self._plan.timeout, loop.time())
        async with (
            AIOKafkaProducer(**self._plan.writing, stop_timeout_ms=STOP_MS) as producer,
            AIOKafkaConsumer(**self._plan.reading) as consumer,
        ):
            consumer.assign(list(self._ends))
            for tp, offset in self._starts.items():
                consumer.seek(tp, offset)
            async with consumer.batches() as batches:
                while self._ends and not self.failures:
                    try:
                        async with asyncio.timeout(IDLE):
                            batch = await anext(batches)
                    except TimeoutError:
                        await self._close_finished(consumer)
                        if self._ends:
                            await missing.look(self._ends, loop.time())
                        continue
                    missing.on_records(loop.time())
                    await self._send(producer, batch.topic_partition, batch.records)
                    await self._close_finished(consumer, batch.topic_partition)
            await self._settle(0)

    async def _send(self, producer: AIOKafkaProducer, tp: TopicPartition, records: Any) -> None:
        plan, end = self._plan, self._ends.get(tp, 0)
        partition = None if plan.by_key else tp.partition
        for record in records:
            if record.offset >= end:
                break
            try:
                ack = await producer.send(
                    plan.target,
                    record.value,
                    record.key,
                    partition,
                    record.timestamp if record.timestamp >= 0 else None,
                    record.headers or None,
                )
            except (KafkaError, ValueError) as error:
                self._fail(tp, record.offset, error)
                return
            self._waiting.append((tp, record.offset, ack))
        await self._settle(PENDING)

    async def _settle(self, most: int) -> None:
        """Wait for acknowledgements until at most this many are missing."""
        while len(self._waiting) > most:
            tp, offset, ack = self._waiting.popleft()
            try:
                await ack
            except KafkaError as error:
                self._fail(tp, offset, error)
            else:
                self.count += 1

    def _fail(self, tp: TopicPartition, offset: int, error: Exception) -> None:
        self.failures += 1
        complain("topic", f"{tp.topic}/{tp.partition} offset {offset} was not copied: {error}")

    async def _close_finished(
        self, consumer: AIOKafkaConsumer, only: TopicPartition | None = None
    ) -> None:
        """Close partitions whose position passed their end, also over offsets without a record."""
        # The position in a topic that was deleted meanwhile would be looked up forever.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDLE):
                for tp in list(self._ends) if only is None else [only]:
                    if tp in self._ends and await consumer.position(tp) >= self._ends[tp]:
                        del self._ends[tp]
                        consumer.pause(tp)
