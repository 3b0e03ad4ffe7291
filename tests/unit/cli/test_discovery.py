"""What appears while `consume` follows topics: partitions, and topics of a pattern."""

import argparse
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aiokafka_lite import TopicPartition
from aiokafka_lite.cli import command_parsers, complete_parser
from aiokafka_lite.cli.connection.lookup import open_lookup
from aiokafka_lite.cli.connection.settings import gather
from aiokafka_lite.cli.transfer.consume_plan import Plan
from aiokafka_lite.cli.transfer.discovery import Discovery
from aiokafka_lite.testing import FakeCluster
from tests.unit.cli.commands import PATIENCE, Shell

pytestmark = pytest.mark.timeout(300)

NOON = 1_700_000_000_000


def arguments(cluster: FakeCluster, *words: str) -> argparse.Namespace:
    _, parsers = command_parsers()
    complete_parser("consume", parsers["consume"])
    return parsers["consume"].parse_args([*words, "-b", cluster.bootstrap_servers])


@asynccontextmanager
async def following(cluster: FakeCluster, *words: str) -> AsyncIterator["Added"]:
    """A discovery that knows partition 0 of `orders`."""
    args = arguments(cluster, *words)
    plan = Plan.of(args, gather(args, {"AIOKAFKA_LITE_CONFIG": os.devnull}))
    async with open_lookup(plan.arguments, plan.timeout) as lookup:
        await lookup.partitions(["orders"])
        yield Added(Discovery(lookup, plan, [TopicPartition("orders", 0)]))


class Added:
    """Asks for the additions, with the newest metadata."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery

    async def __call__(self) -> dict[TopicPartition, int]:
        lookup = self._discovery._lookup
        await lookup.cluster.refresh(lookup.deadline())
        return await self._discovery.added()


@pytest.mark.kafka(topics=["orders"])
@pytest.mark.parametrize("offset", ["start", "end", "-1", "+1", "5"])
async def test_added_partition_begins_with_its_first_record(
    kafka_broker: FakeCluster, offset: str
) -> None:
    async with following(kafka_broker, "orders", "-o", offset) as added:
        assert await added() == {}
        kafka_broker.add_partitions("orders", 3)
        for _ in range(3):
            kafka_broker.produce("orders", b"x", partition=2)
        assert await added() == {TopicPartition("orders", 1): 0, TopicPartition("orders", 2): 0}
        assert await added() == {}


@pytest.mark.kafka(topics=["orders"])
async def test_time_counts_in_added_partitions(kafka_broker: FakeCluster) -> None:
    async with following(kafka_broker, "orders", "-o", f"@{NOON}") as added:
        kafka_broker.add_partitions("orders", 4)
        for moment in (NOON - 2, NOON - 1, NOON, NOON + 1):
            kafka_broker.produce("orders", b"x", partition=1, timestamp_ms=moment)
        kafka_broker.produce("orders", b"x", partition=2, timestamp_ms=NOON - 1)
        found = {tp.partition: offset for tp, offset in (await added()).items()}
        # No record in partition 2 is late enough: reading begins with future records.
        assert found == {1: 2, 2: 1, 3: 0}


@pytest.mark.kafka(topics=["orders"])
async def test_new_topic_of_a_pattern_is_found(kafka_broker: FakeCluster) -> None:
    async with following(kafka_broker, "-r", "ord.*", "-p", "0,1") as added:
        kafka_broker.create_topic("ordinary", 3)
        kafka_broker.create_topic("other", 1)
        kafka_broker.create_topic("__ord", 1)
        expected = {TopicPartition("ordinary", 0): 0, TopicPartition("ordinary", 1): 0}
        assert await added() == expected


def test_topic_that_is_created_later_is_read(kafka_broker: FakeCluster, tmp_path: Path) -> None:
    kafka_broker.create_topic("teas-1", 1)
    kafka_broker.produce("teas-1", b"first")
    shell = Shell(kafka_broker.bootstrap_servers, tmp_path)
    options = ("-f", r"%t %v\n", "-X", "metadata.max.age.ms=200")
    for flags in (("-o", "start"), ("-g", "kitchen")):
        later = f"teas-{flags[0]}"
        reader = shell.start("consume", "-r", "teas-.*", *flags, *options, stdout=subprocess.PIPE)
        assert reader.stdout is not None
        lines = iter(reader.stdout.readline, b"")
        assert b"teas-1 first\n" in lines  # the topic of another round may come before
        kafka_broker.create_topic(later, 2)
        kafka_broker.produce(later, b"second", partition=1)
        assert f"{later} second\n".encode() in lines
        reader.send_signal(signal.SIGTERM)
        reader.communicate(timeout=PATIENCE)
        assert reader.returncode == 143
