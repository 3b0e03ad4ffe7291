"""`share`, and `consume --share-group`, against the embedded broker."""

import json
import select
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.cli.formats.format_grammar import parse_format
from aiokafka_lite.cli.formats.json_lines import json_line_reader
from aiokafka_lite.cli.formats.writing import format_writer
from aiokafka_lite.testing import FakeCluster
from tests.unit.cli.commands import PATIENCE, Shell
from tests.unit.cli.test_administration import rows

pytestmark = [pytest.mark.timeout(300), pytest.mark.kafka(topics=["jobs"])]

Run = Callable[..., str]


@pytest.fixture
def shell(kafka_broker: FakeCluster, tmp_path: Path) -> Shell:
    """A topic with four records, and a share group that begins with the first."""
    shell = Shell(kafka_broker.bootstrap_servers, tmp_path)
    for number in range(4):
        kafka_broker.produce("jobs", b"%d" % number)
    done = shell.run("config", "set", "group", "g", "share.auto.offset.reset=earliest", "--yes")
    assert done.returncode == 0
    return shell


def read(shell: Shell, count: int, *flags: str) -> list[tuple[int, str]]:
    """The delivery counts and values of this many records."""
    arguments = ("consume", "jobs", "--share-group", "g", "-n", str(count), *flags)
    lines = shell.ok(*arguments, "-f", r"%D %v\n").decode().splitlines()
    return [(int(line.split()[0]), line.split()[1]) for line in lines]


def test_written_records_are_accepted(shell: Shell, kafka_broker: FakeCluster) -> None:
    assert read(shell, 3) == [(1, "0"), (1, "1"), (1, "2")]
    kafka_broker.produce("jobs", b"4")
    assert read(shell, 2) == [(1, "3"), (1, "4")]


def test_released_records_are_delivered_again_and_rejected_ones_are_not(shell: Shell) -> None:
    assert read(shell, 2, "--ack", "release") == [(1, "0"), (1, "1")]
    assert read(shell, 1, "--ack", "reject") == [(2, "0")]
    assert read(shell, 3, "--ack", "accept") == [(2, "1"), (1, "2"), (1, "3")]
    arguments = ("consume", "jobs", "--share-group", "g", "--idle", "1s")
    assert shell.ok(*arguments) == b""


def test_json_lines_have_the_delivery_count(shell: Shell, kafka_broker: FakeCluster) -> None:
    kafka_broker.create_topic("copy", 1)
    lines = shell.ok("consume", "jobs", "--share-group", "g", "-n", "4", "-J")
    assert [json.loads(line)["delivery_count"] for line in lines.splitlines()] == [1] * 4
    shell.ok("produce", "copy", "-J", stdin=lines)
    assert shell.ok("consume", "copy", "-e", "-f", "%D%v ") == b"00 01 02 03 "


def test_record_that_does_not_fit_the_format_is_not_accepted(shell: Shell) -> None:
    arguments = ("consume", "jobs", "--share-group", "g", "-n", "4", "-f", r"%v{unpack[>q]}\n")
    problems = shell.fails(1, *arguments).splitlines()
    assert [line.split(": ")[1] for line in problems] == [
        f"jobs/0 at offset {offset}" for offset in range(4)
    ]
    assert read(shell, 4) == [(2, str(number)) for number in range(4)]


@pytest.mark.kafka(
    topics=["jobs"], broker_configs={"group.share.min.record.lock.duration.ms": "1000"}
)
def test_lock_that_expired_before_the_write_is_reported(
    kafka_broker: FakeCluster, shell: Shell
) -> None:
    done = shell.run(
        *("config", "set", "group", "g", "share.record.lock.duration.ms=1000", "--yes")
    )
    assert done.returncode == 0
    kafka_broker.create_topic("large", 1)
    value = b"x" * 900_000  # larger than a pipe
    kafka_broker.produce("large", value)
    arguments = ("consume", "large", "--share-group", "g", "-n", "1")
    reader = shell.start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert reader.stdout is not None
    assert select.select([reader.stdout], [], [], PATIENCE)[0]
    # Another member gets the same record, whose lock expires while nothing reads the pipe.
    assert shell.ok(*arguments) == value + b"\n"
    out, problems = reader.communicate(timeout=PATIENCE)
    assert (reader.returncode, out) == (1, value + b"\n")
    assert b"large/0, from offset 0: 1 records were written, but could not be acknow" in problems


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("-e",), "-e and --share-group cannot be combined"),
        (("-g", "h"), "-g and --share-group"),
        (("--tail", "1"), "--tail and --share-group"),
        (("-o", "end"), "share seek g"),
        (("--committed",), "share.isolation.level=read_committed"),
        (("--grep", "v:x"), "--grep and --share-group cannot be combined"),
        (("-X", "isolation.level=read_committed"), "config get group GROUP"),
        (("-X", "max.poll.records=x"), "should be a whole number"),
    ],
)
def test_flags_that_share_groups_do_not_support_are_refused(
    run: Run, flags: Sequence[str], says: str
) -> None:
    run("consume", "jobs", "--share-group", "g", *flags, status=2, says=says)


def test_acknowledgement_needs_a_share_group(run: Run) -> None:
    run("consume", "jobs", "--ack", "reject", status=2, says="--ack needs --share-group")


def test_misspelled_topic_is_refused(run: Run, kafka_broker: FakeCluster) -> None:
    run("consume", "jbos", "--share-group", "g", status=1, says="'jbos' does not exist")
    assert "jbos" not in kafka_broker.state.topics


def test_delivery_count_is_read_over_and_0_without_a_group() -> None:
    record: Any = ConsumerRecord("t", 0, 0, 0, 0, None, b"v", None, -1, 1, ())
    assert format_writer(parse_format("%D{big8}%v"))([record]) == b"\x00v"
    assert json_line_reader()(b'{"value": "v", "delivery_count": 3}').value == b"v"


def test_share_groups_are_listed_and_described(shell: Shell, run: Run) -> None:
    assert rows(run, "share", "list") == []
    assert rows(run, "share", "lag", "--total") == []
    read(shell, 3)
    shell.ok("consume", "jobs", "-g", "ordinary", "-n", "1")
    assert rows(run, "share", "list") == [{"group": "g", "state": "Empty"}]
    assert rows(run, "share", "list", "--state", "Stable") == []
    [described] = rows(run, "share", "describe", "g")
    assert (described["group"], described["state"], described["members"]) == ("g", "Empty", 0)
    assert rows(run, "share", "describe", "g", "--members") == []
    run("share", "describe", "nope", status=1, says="GroupIdNotFound")
    [lag] = rows(run, "share", "lag")
    assert (lag["group"], lag["topic"], lag["partition"], lag["lag"]) == ("g", "jobs", 0, 1)
    assert rows(run, "share", "lag", "g", "--total") == [{"group": "g", "partitions": 1, "lag": 1}]
    run("share", "lag", "nope", status=1, says="GroupIdNotFound")


def test_share_group_is_moved_after_a_preview(shell: Shell, run: Run) -> None:
    read(shell, 4)
    run("share", "seek", "g", "--to", "+1", status=2, says="add --yes")
    run("share", "seek", "g", "--to", "+1", "--dry-run", says="g: jobs/0 ")
    run("share", "seek", "g", "--to", "1:2", status=2, says="one offset or time, not a range")
    run("share", "seek", "g", "--to", "end", "--topic", "jobs:3", status=2, says="jobs:3")
    run("share", "seek", "g", "--to", "+1", "--topic", "jobs:0", "--yes", says="-> 1")
    [lag] = rows(run, "share", "lag", "g")
    assert (lag["start"], lag["lag"]) == (1, 3)
    run("share", "seek", "new", "--to", "end", "--yes", status=1, says="name topics with --topic")
    run("share", "seek", "new", "--to", "end", "--topic", "jobs", "--yes", says="none -> 4")
    run("share", "seek", "new", "--to", "end", "--yes", says="is there already")
    run("share", "seek", "new", "--to", "-1", "--yes", says="4 -> 3")
    assert shell.ok("consume", "jobs", "--share-group", "new", "-n", "1") == b"3\n"


def test_share_group_with_members_is_refused(shell: Shell, run: Run) -> None:
    flags = ("--share-group", "g", "-X", "client.id=waiter")
    member = shell.start("consume", "jobs", *flags, stdout=subprocess.PIPE)
    try:
        assert member.stdout is not None
        assert member.stdout.readline() == b"0\n"
        active: Any = {"status": 1, "says": "share group g is active: stop its members first (wait"}
        run("share", "seek", "g", "--to", "end", "--topic", "jobs", "--yes", **active)
        run("share", "delete", "g", "--yes", **active)
        run("share", "delete-offsets", "g", "--topic", "jobs", "--yes", **active)
        [described] = rows(run, "share", "describe", "g", "--members")
        assert (described["client_id"], described["host"]) == ("waiter", "127.0.0.1")
        assert described["partitions"] == ["jobs/0"]
    finally:
        member.terminate()
        member.communicate(timeout=PATIENCE)


def test_offsets_and_share_groups_are_deleted(shell: Shell, run: Run) -> None:
    read(shell, 1)
    run("share", "delete-offsets", "g", "--topic", "nope", status=1, says="has no offset of nope")
    run("share", "delete-offsets", "g", "--topic", "jobs", "--dry-run", says="delete the offset")
    assert len(rows(run, "share", "lag", "g")) == 1
    run("share", "delete-offsets", "g", "--topic", "jobs", "--yes", says="delete the offset")
    assert rows(run, "share", "lag", "g") == []
    run("share", "delete", "g", status=2, says="delete share group g")
    run("share", "delete", "g", "nope", "--yes", status=1, says="GroupIdNotFound")
    assert rows(run, "share", "list") == []
