"""The consumer protocol's state machine in groups on a real broker, also with other clients."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite.errors import (
    InvalidRegularExpressionError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from aiokafka_lite.group.consumer.machine import MemberState
from aiokafka_lite.group.membership import Revoke
from tests.conftest import TopicFactory
from tests.real.modern_tasks import RealMember
from tools.kafka import NEWEST, RealKafka, jars, jvm

PARTITIONS = 6


class Group:
    """Members of one group, and their expected state."""

    def __init__(self, address: str, topic: str) -> None:
        self.address = address
        self.topic = topic
        self.group_id = f"modern-{uuid.uuid4().hex[:12]}"
        self.members: list[RealMember] = []

    def add(self, *topics: str, pattern: str | None = None, **options: Any) -> RealMember:
        member = RealMember(self.address, self.group_id, **options)
        self.members.append(member)
        member.subscribe(*topics or (() if pattern else (self.topic,)), pattern=pattern)
        return member

    async def until(self, holds: Callable[[], bool], seconds: float = 40.0) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    await asyncio.sleep(0.05)
                    self.check()
        except TimeoutError:
            states = [(each.machine, sorted(each.held)) for each in self.members]
            raise AssertionError(f"not in time: {states}") from None

    async def until_stable(self, *members: RealMember, count: int = PARTITIONS) -> None:
        await self.until(
            lambda: (
                all(member.stable and member.held for member in members)
                and sum(len(member.held) for member in members) == count
            )
        )

    def check(self) -> None:
        """Check that no two members own the same partition."""
        held = [tp for each in self.members if each.machine.generation > 0 for tp in each.held]
        assert len(held) == len(set(held))


@pytest.fixture
async def group(kafka: RealKafka, topic: TopicFactory) -> AsyncIterator[Group]:
    group = Group(kafka.bootstrap_servers.split(",")[0], topic(PARTITIONS))
    yield group
    for member in group.members:
        await member.die()


async def test_members_come_and_go(group: Group) -> None:
    first = group.add()
    await group.until_stable(first)
    assert "Revoke" not in first.kinds()
    second = group.add()
    await group.until_stable(first, second)
    third = group.add()
    await group.until_stable(first, second, third)
    await first.close()
    await group.until_stable(second, third)
    second.leave()
    await group.until_stable(third)
    assert second.machine.state is MemberState.UNSUBSCRIBED
    assert not any("Lost" in member.kinds() for member in group.members)


async def test_broken_connections_keep_the_membership(group: Group) -> None:
    first, second = group.add(), group.add()
    await group.until_stable(first, second)
    kinds = first.kinds()
    for _ in range(3):
        before = len(first.sent)
        await first.cut()
        first.machine.request_rejoin("to be heard of at once", first.now)
        first._wake.set()
        await group.until(  # sent in full
            lambda before=before: any(beat.topic_partitions for beat in first.sent[before:])
        )
        await asyncio.sleep(1.0)
    await group.until(lambda: first.stable)
    assert first.kinds() == kinds
    await group.until_stable(first, second)


async def test_heartbeat_version_0(group: Group) -> None:
    first = group.add(version=0)
    await group.until_stable(first)
    assert first.sent[0].member_id == ""
    member_id = first.machine.member_id
    assert member_id
    first.leave()
    await group.until(lambda: first.machine.state is MemberState.UNSUBSCRIBED)
    first.subscribe(group.topic)
    await group.until_stable(first)
    assert first.machine.member_id == member_id


async def test_static_members(group: Group) -> None:
    first = group.add(group_instance_id="one")
    second = group.add(group_instance_id="two")
    await group.until_stable(first, second)
    usurper = group.add(group_instance_id="one")
    await group.until(lambda: bool(usurper.failures))
    assert isinstance(usurper.failures[0], UnreleasedInstanceIdError)
    had = second.held
    await second.close()
    again = group.add(group_instance_id="two")
    await group.until_stable(first, again)
    assert again.held == had
    assert "Revoke" not in again.kinds()
    await again.close(stay=False)  # permanently
    await group.until_stable(first)


async def test_patterns_and_subscription_changes(group: Group, topic: TopicFactory) -> None:
    other = topic(2)
    pattern = f"{group.topic}|{other}"
    member = group.add(pattern=pattern)
    await group.until_stable(member, count=PARTITIONS + 2)
    member.subscribe(other)
    await group.until_stable(member, count=2)
    assert {tp.topic for tp in member.held} == {other}
    member.subscribe(group.topic)
    await group.until_stable(member, count=PARTITIONS)
    member.subscribe(pattern="(")
    await group.until(lambda: bool(member.failures))
    assert isinstance(member.failures[0], InvalidRegularExpressionError)
    await group.until(lambda: not member.held)
    member.subscribe(pattern=pattern)
    await group.until_stable(member, count=PARTITIONS + 2)


async def test_server_side_assignors(group: Group) -> None:
    ranged = group.add(server_assignor="range", client_rack="somewhere")
    await group.until_stable(ranged)
    wrong = group.add(server_assignor="none such")
    await group.until(lambda: bool(wrong.failures))
    assert isinstance(wrong.failures[0], UnsupportedAssignorError)


async def test_group_with_librdkafka(group: Group) -> None:
    confluent_kafka: Any = pytest.importorskip("confluent_kafka")
    first = group.add()
    await group.until_stable(first)
    held: set[int] = set()
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": group.address,
            "group.id": group.group_id,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )

    def poll() -> None:
        consumer.poll(0.2)
        held.clear()
        held.update(tp.partition for tp in consumer.assignment())

    async def poll_until(holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                await asyncio.to_thread(poll)
                assert not held & {tp.partition for tp in first.held}

    try:
        consumer.subscribe([group.topic])
        await poll_until(lambda: len(held) == len(first.held) == PARTITIONS // 2 and first.stable)
    finally:
        await asyncio.to_thread(consumer.close)
    await group.until_stable(first)
    assert "Lost" not in first.kinds()


JAVA_MEMBER = """
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;

public class Member {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("group.protocol", "consumer");
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", bytes);
        settings.put("value.deserializer", bytes);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[2]));
            while (consumer.assignment().size() != 3) consumer.poll(Duration.ofMillis(100));
            System.out.println(consumer.assignment().size());
            for (int poll = 0; poll < 20; poll++) consumer.poll(Duration.ofMillis(100));
        }
    }
}
"""


async def test_group_with_java(group: Group, tmp_path: Path) -> None:
    """Java's consumer joins, gets half of the partitions, and returns them when it closes."""
    program = tmp_path / "Member.java"
    program.write_text(JAVA_MEMBER)
    first = group.add()
    await group.until_stable(first)
    java = await asyncio.create_subprocess_exec(
        jars.java(),
        *(*jvm.options(NEWEST), "-cp", jars.class_path(), str(program)),
        *(group.address, group.group_id, group.topic),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(200):  # it is compiled first, also on a busy machine
            output, _ = await java.communicate()
    finally:
        if java.returncode is None:
            java.kill()
            await java.wait()
    assert output.split()[-1:] == [b"3"]
    await group.until_stable(first)
    revoked = [step.partitions for step in first.steps if isinstance(step, Revoke)]
    assert [len(each) for each in revoked] == [PARTITIONS // 2]
    assert "Lost" not in first.kinds()
