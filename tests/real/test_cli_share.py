"""`share` and `consume --share-group` against a real Kafka."""

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.real.visibility import group_has_configs
from tests.unit.cli.commands import Shell
from tools.kafka import RealKafka


@pytest.fixture
def shell(kafka: RealKafka, tmp_path: Path) -> Shell:
    return Shell(kafka.bootstrap_servers, tmp_path)


@pytest.fixture
def topic(kafka: RealKafka, shell: Shell) -> str:
    """A topic with four records."""
    name = f"cli-{uuid.uuid4().hex[:10]}"
    kafka.create_topic(name, 1)
    shell.ok("produce", name, stdin=b"0\n1\n2\n3\n")
    return name


@pytest.fixture
def group(kafka: RealKafka, shell: Shell) -> str:
    """A new share group that begins with the first record."""
    name = f"cli-{uuid.uuid4().hex[:10]}"
    done = shell.run("config", "set", "group", name, "share.auto.offset.reset=earliest", "--yes")
    assert done.returncode == 0, done.stderr
    wanted = {"share.auto.offset.reset": "earliest"}
    asyncio.run(group_has_configs(kafka.bootstrap_servers, name, wanted))
    return name


def rows(shell: Shell, *arguments: str) -> Any:
    return json.loads(shell.ok(*arguments, "--output", "json"))


def test_ack_flag_selects_the_acknowledgement(shell: Shell, topic: str, group: str) -> None:
    def read(count: int, acknowledgement: str) -> bytes:
        flags = ("--share-group", group, "-n", str(count), "--ack", acknowledgement)
        return shell.ok("consume", topic, *flags, "-f", "%D:%v ")

    assert read(2, "release") == b"1:0 1:1 "
    assert read(1, "reject") == b"2:0 "
    assert read(3, "accept") == b"2:1 1:2 1:3 "
    assert shell.ok("consume", topic, "--share-group", group, "--idle", "1s") == b""


def test_share_group_is_described_moved_and_deleted(shell: Shell, topic: str, group: str) -> None:
    def read(count: int) -> bytes:
        return shell.ok("consume", topic, "--share-group", group, "-n", str(count), "-f", "%v")

    assert read(4) == b"0123"
    assert group in [each["group"] for each in rows(shell, "share", "list")]
    [described] = rows(shell, "share", "describe", group)
    assert (described["state"], described["members"]) == ("Empty", 0)
    [lag] = rows(shell, "share", "lag", group)
    assert (lag["topic"], lag["partition"]) == (topic, 0)
    shell.fails(2, "share", "seek", group, "--to", "+1")  # not confirmed
    done = shell.run("share", "seek", group, "--to", "+1", "--topic", topic, "--yes")
    assert (done.returncode, done.stderr.count(b"-> 1")) == (0, 1), done.stderr
    [lag] = rows(shell, "share", "lag", group)
    assert (lag["start"], lag["lag"]) == (1, 3)
    assert read(3) == b"123"
    assert shell.run("share", "delete-offsets", group, "--topic", topic, "--yes").returncode == 0
    assert rows(shell, "share", "lag", group) == []
    assert shell.run("share", "delete", group, "--yes").returncode == 0
    assert "GroupIdNotFound" in shell.fails(1, "share", "describe", group)
