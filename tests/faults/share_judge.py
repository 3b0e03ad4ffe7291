"""Kafka's own share consumer as the judge of partitions that stand still.

Brokers of Kafka 4.3 and 4.4 can stop serving a partition of a share group. When its leader reloads
the state of the group, an undecided record at the start offset is a gap in that state. Records
behind it that were acknowledged count against `share.partition.max.record.locks`. If there are more
of them than this limit, the leader delivers the gap, and then nothing: the start offset moves only
after another fetch, which the limit forbids. A larger limit, or a group without members, ends this
state.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from aiokafka_lite import AIOKafkaAdminClient
from aiokafka_lite.admin import ConfigResource
from tests.faults.consumer_journal import Place
from tests.faults.share_fleet import ShareFleet
from tools.kafka import jars, jvm
from tools.kafka.process import Child
from tools.kafka.releases import FALLBACK

__all__ = ["most_locks", "what_java_gets"]

SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
JOINS_WITHIN = 90.0  # seconds, on a busy machine
READS_FOR = 30.0  # seconds that Java has all partitions for itself
MOST_LOCKS = 4000  # of a partition: Kafka allows no more


async def what_java_gets(
    servers: str, group: str, places: Collection[Place], fleet: ShareFleet, folder: Path
) -> Counter[Place]:
    """Let Java take the place of the fleet's members, and count the records that it receives.

    The group always has a member, so no broker drops its state of the group. Java releases the
    records that it receives.
    """
    members = {
        topic: _start(servers, group, topic, folder / f"java-{topic}.log")
        for topic in {topic for topic, _ in places}
    }
    try:
        await _join(servers, group, len(fleet.members) + len(members))
        await fleet.end()
        await asyncio.sleep(READS_FOR)
    finally:
        for child in members.values():
            child.terminate(20)
    return Counter(
        (topic, int(line.split("\t", 1)[0].removeprefix("Partition:")))
        for topic, child in members.items()
        for line in child.log.read_text(errors="replace").splitlines()
        if line.startswith("Partition:")
    )


def _start(servers: str, group: str, topic: str, log: Path) -> Child:
    arguments = ["--bootstrap-server", servers, "--group", group, "--topic", topic, "--release"]
    for name in "print.partition", "print.offset":
        arguments += ["--formatter-property", f"{name}=true"]
    command = [jars.java(), *jvm.options(FALLBACK), "-Xmx256m", "-cp", jars.class_path(FALLBACK)]
    return Child([*command, SHARE_CONSUMER, *arguments], log)


async def _join(servers: str, group: str, count: int) -> None:
    """Wait until the group has this many members.

    Raises:
        AssertionError: The group has another number of members.
    """
    deadline = time.monotonic() + JOINS_WITHIN
    async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
        while True:
            found = (await admin.describe_share_groups([group])).valid().get(group)
            if found is not None and len(found.members) >= count:
                return
            assert time.monotonic() < deadline, f"{found} has no {count} members"
            await asyncio.sleep(0.5)


async def most_locks(servers: str, group: str) -> None:
    """Allow the group as many locks per partition as Kafka supports."""
    changes = {"share.partition.max.record.locks": str(MOST_LOCKS)}
    async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
        result = await admin.incremental_alter_configs({ConfigResource("group", group): changes})
        result.raise_for_errors()
