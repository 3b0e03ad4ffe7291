"""`produce` and `consume`, in separate processes, against the embedded broker."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aiokafka_lite.cli import main
from aiokafka_lite.cli.connection import settings
from aiokafka_lite.errors import UnknownMemberIdError
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.cli.commands import COMMAND, PATIENCE, Shell
from tests.unit.cli.conftest import Run

pytestmark = pytest.mark.timeout(300)

Header = tuple[str, bytes | None]


@pytest.fixture
def shell(kafka_broker: FakeCluster, tmp_path: Path) -> Shell:
    return Shell(kafka_broker.bootstrap_servers, tmp_path)


def values(shell: Shell, topic: str, *flags: str) -> list[bytes]:
    return shell.ok("consume", topic, "-e", *flags).split(b"\n")[:-1]


def test_lines_go_in_and_out(shell: Shell, kafka_topic: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"three\n\nfive")
    shell.ok("produce", kafka_topic, stdin=b"one\ntwo\n")
    shell.ok("produce", kafka_topic, str(tmp_path / "file"), "-k", "key", "-H", "a=b", "-H", "n")
    assert values(shell, kafka_topic) == [b"one", b"two", b"three", b"", b"five"]
    written = values(shell, kafka_topic, "-o", "2:", "-f", r"%o %k %v %h{%k=%V %v,}\n")
    assert written[0] == b"2 key three a=1 b,n=-1 ,"
    assert len(written) == 3


def test_offsets_select_records(shell: Shell, kafka_broker: FakeCluster, kafka_topic: str) -> None:
    for number in range(10):
        kafka_broker.produce(kafka_topic, b"%d" % number, timestamp_ms=1_700_000_000_000 + number)
    for offset, expected in [
        ("3", "3456789"),
        ("+8", "89"),
        ("-2", "89"),
        ("2:4", "23"),
        (":2", "01"),
        ("@1700000000004:1700000000006", "45"),
    ]:
        done = shell.ok("consume", kafka_topic, "-e", "-o", offset, "-f", "%v")
        assert done.decode() == expected, offset
    assert shell.ok("consume", kafka_topic, "-n", "3", "-f", "%v") == b"012"
    assert shell.ok("consume", kafka_topic, "-e", "--grep", "v:[24]", "-f", "%v") == b"24"


def test_tail_counts_records_and_not_the_gaps(
    shell: Shell, kafka_broker: FakeCluster, kafka_topic: str
) -> None:
    script = [b"a", b"b", b"c"]
    for value in script:
        shell.ok("produce", kafka_topic, "--transaction", stdin=value + b"\n")
    # Each transaction ends with a control record: offsets 1, 3 and 5 hold no record.
    assert values(shell, kafka_topic, "--tail", "2") == [b"b", b"c"]
    assert values(shell, kafka_topic, "--tail", "9", "--committed") == script


def test_json_lines_copy_a_topic(shell: Shell, kafka_broker: FakeCluster, kafka_topic: str) -> None:
    kafka_broker.create_topic("copy", 1)
    odd: list[tuple[bytes | None, bytes | None, list[Header]]] = [
        (None, b"value", []),
        (b"key", None, [("h", None), ("h", b""), ("h", b"\xff")]),
        (b"", b"", []),
        (b"\x00\xff", bytes(range(256)), []),
        ("ключ".encode(), "☕ \u2028".encode(), []),
    ]
    for key, value, headers in odd:
        kafka_broker.produce(kafka_topic, value, key=key, headers=headers, timestamp_ms=5)
    lines = shell.ok("consume", kafka_topic, "-e", "-J")
    shell.ok("produce", "copy", "-J", stdin=lines)
    copied = shell.ok("consume", "copy", "-e", "-J")
    assert copied == lines.replace(kafka_topic.encode(), b"copy")
    assert [json.loads(line)["timestamp"] for line in copied.splitlines()] == [5] * len(odd)


def test_each_invalid_record_is_reported_and_the_rest_is_sent(
    shell: Shell, kafka_topic: str
) -> None:
    stdin = b'{"value": "a"}\nnope\n{"value": "b"}\n{"value": "c", "partition": 7}\n'
    problems = shell.fails(1, "produce", kafka_topic, "-J", stdin=stdin).splitlines()
    assert [line.split(": ")[1] for line in problems[:2]] == ["record 2", "record 4"]
    assert problems[2] == "aiokafka-lite produce: 2 of 4 records failed"
    assert values(shell, kafka_topic) == [b"a", b"b"]
    stdin = b"x\n" + b"y" * 2_000_000 + b"\nz\n"
    assert "record 2: " in shell.fails(1, "produce", kafka_topic, stdin=stdin)
    assert values(shell, kafka_topic, "-o", "2") == [b"x", b"z"]


def test_failed_record_aborts_the_transaction(shell: Shell, kafka_topic: str) -> None:
    stdin = b'{"value": "a"}\nnope\n'
    problem = shell.fails(1, "produce", kafka_topic, "-J", "--transaction", stdin=stdin)
    assert "the transaction is aborted" in problem
    assert values(shell, kafka_topic, "--committed") == []


def test_report_and_tee_write_what_was_stored(shell: Shell, kafka_topic: str) -> None:
    out = shell.ok("produce", kafka_topic, "--report", r"%t %p %o %v\n", stdin=b"a\nb\n")
    assert out == b"%b 0 0 a\n%b 0 1 b\n" % ((kafka_topic.encode(),) * 2)
    assert shell.ok("produce", kafka_topic, "--tee", stdin=b"c\nd\n") == b"c\nd\n"
    shell.ok("produce", kafka_topic, "--repeat", "3", "-Z", stdin=b"\n")
    line = values(shell, kafka_topic, "-o", "4", "-f", r"%V ")
    assert line == []
    assert shell.ok("consume", kafka_topic, "-e", "-o", "4", "-f", "%V ") == b"-1 -1 -1 "


@pytest.mark.parametrize("flags", [("--tee",), ("--report", r"%o\n"), ("--tee", "--transaction")])
def test_writer_that_is_ended_by_a_closed_pipe_fails(
    shell: Shell, kafka_topic: str, flags: tuple[str, ...]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    pipes = {"stdin": subprocess.PIPE, "stdout": writing, "stderr": subprocess.PIPE}
    process = shell.start("produce", kafka_topic, *flags, **pipes)
    os.close(writing)
    _, problem = process.communicate(b"a\nb\n", timeout=PATIENCE)
    assert process.returncode == 1
    assert b"the reader of standard output has exited" in problem
    assert (b"the transaction is aborted" in problem) == ("--transaction" in flags)


def test_records_before_malformed_input_are_sent(shell: Shell, kafka_topic: str) -> None:
    stdin = b"1:a\n1:b\nnonsense\n1:c\n"
    problem = shell.fails(1, "produce", kafka_topic, "-f", r"%V:%v\n", stdin=stdin)
    assert "record 3 of the input" in problem
    assert values(shell, kafka_topic) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("closed", "arguments", "says"),
    [
        ("<&-", "produce {topic}", b"stdin: Bad file descriptor"),
        (">&-", "consume {topic} -e", b"Bad file descriptor"),
        (">&-", "topic list", b"standard output: Bad file descriptor"),
        ("2>&-", "consume nope -e", b""),
    ],
)
def test_closed_standard_stream_is_no_traceback(
    shell: Shell,
    kafka_broker: FakeCluster,
    kafka_topic: str,
    closed: str,
    arguments: str,
    says: bytes,
) -> None:
    kafka_broker.produce(kafka_topic, b"a")
    done = subprocess.run(
        [
            "sh",
            "-c",
            f'exec "$@" {closed}',
            "sh",
            *COMMAND,
            *arguments.format(topic=kafka_topic).split(),
        ],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
        env=shell.environment,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert says in done.stderr
    assert b"Traceback" not in done.stderr


def test_broker_that_is_down_does_not_fail_a_writer(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\n")
    with FakeCluster(3) as cluster:
        cluster.create_topic("orders", 1, 1)  # led by broker 0
        for node_id in (1, 2):
            cluster.control(ApiKey.METADATA, disconnect=True, node=node_id, times=None)
        for _ in range(4):  # the broker to ask was chosen at random
            run("produce", "orders", str(tmp_path / "file"), "-q", "-b", cluster.bootstrap_servers)
        assert len(cluster.records("orders")) == 4


@pytest.mark.parametrize("recreated", [False, True])
@pytest.mark.parametrize("command", ["consume orders -e", "topic copy orders copy"])
def test_end_of_a_topic_that_is_deleted_meanwhile_is_not_waited_for(
    shell: Shell, kafka_broker: FakeCluster, command: str, recreated: bool
) -> None:
    kafka_broker.create_topic("orders", 1)
    kafka_broker.create_topic("copy", 1)
    for _ in range(3):
        kafka_broker.produce("orders", b"a")
    # The ends are known by the first fetch, and nothing is read before the topic is gone.
    fault = kafka_broker.control(ApiKey.FETCH, disconnect=True, times=None)
    started = shell.start(*command.split(), "--timeout", "3s", "-q", stderr=subprocess.PIPE)
    fault.wait(timeout=PATIENCE)
    kafka_broker.delete_topic("orders")
    if recreated:
        kafka_broker.create_topic("orders", 1)
    fault.remove()
    _, problem = started.communicate(timeout=PATIENCE)
    assert started.returncode == 1
    assert (b"orders/0 ends at offset 0 now" if recreated else b"no longer exists") in problem
    assert b"Traceback" not in problem


def test_results_are_reported_while_the_input_waits(
    shell: Shell, kafka_broker: FakeCluster, kafka_topic: str
) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = shell.start("produce", kafka_topic, "--report", r"%o %v\n", **pipes)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    for number in range(3):
        process.stdin.write(b"%d\npart" % number if number == 2 else b"%d\n" % number)
        process.stdin.flush()
        assert process.stdout.readline() == b"%d %d\n" % (number, number)
    assert process.communicate(timeout=PATIENCE) == (b"3 part\n", b"")
    assert process.returncode == 0


def test_failure_ends_a_writer_whose_input_waits(
    shell: Shell, kafka_broker: FakeCluster, kafka_topic: str
) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = shell.start("produce", kafka_topic, "--timeout", "1s", "--report", r"%v\n", **pipes)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"stored\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"stored\n"
    kafka_broker.kill(0)
    process.stdin.write(b"lost\nnot sent")
    process.stdin.flush()
    assert process.wait(PATIENCE) == 1  # the input is still open
    out, problems = process.communicate(timeout=PATIENCE)
    assert out == b""
    assert b"record 2: " in problems
    assert b"1 of 2 records failed" in problems
    assert b"not awaited" not in problems


def test_group_commits_what_was_written(
    shell: Shell, kafka_broker: FakeCluster, kafka_topic: str
) -> None:
    shell.ok("produce", kafka_topic, stdin=b"a\nb\nc\n")
    assert shell.ok("consume", kafka_topic, "-g", "kitchen", "-n", "2") == b"a\nb\n"
    assert kafka_broker.committed("kitchen") == {(kafka_topic, 0): 2}
    again = shell.ok("consume", kafka_topic, "-g", "kitchen", "-n", "1", "--no-commit")
    assert again == b"c\n"
    assert kafka_broker.committed("kitchen") == {(kafka_topic, 0): 2}


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_record_that_is_written_during_a_rebalance_is_not_committed_after_it(
    shell: Shell, kafka_broker: FakeCluster
) -> None:
    kafka_broker.create_topic("orders", 2)
    kafka_broker.produce("orders", b"x" * 900_000)  # more than a pipe takes
    member = ("consume", "orders", "-g", "kitchen", "-X", "group.protocol=classic")
    slow = shell.start(*member, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert slow.stdout is not None
    assert slow.stdout.read(1) == b"x"
    other = shell.start(*member, stdout=subprocess.DEVNULL)

    def shared() -> bool:
        view = kafka_broker.group("kitchen")
        return view.state == "Stable" and sorted(map(len, view.members.values())) == [1, 1]

    wait_until(shared)
    assert slow.stdout.readline() == b"x" * 899_999 + b"\n"
    wait_until(
        lambda: (TopicPartition("orders", 0), 1) in kafka_broker.committed("kitchen").items()
    )
    assert slow.poll() is None  # the reader that has the partition now committed it
    for process in (slow, other):
        process.send_signal(signal.SIGTERM)
    _, problems = slow.communicate(timeout=PATIENCE)
    other.wait(PATIENCE)
    assert slow.returncode == 143
    assert b"orders/0: records that were written" in problems
    assert b"Traceback" not in problems


def test_a_reader_that_the_group_removed_rejoins(shell: Shell, kafka_broker: FakeCluster) -> None:
    kafka_broker.create_topic("orders", 1)
    kafka_broker.produce("orders", b"a")
    kafka_broker.control(ApiKey.OFFSET_COMMIT, error=UnknownMemberIdError)
    process = shell.start(
        *("consume", "orders", "-g", "kitchen", "-X", "group.protocol=classic"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == [b"a\n", b"a\n"]
    wait_until(
        lambda: (TopicPartition("orders", 0), 1) in kafka_broker.committed("kitchen").items()
    )
    process.send_signal(signal.SIGTERM)
    _, problems = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert b"orders/0: records that were written" in problems
    assert b"Traceback" not in problems


def test_a_commit_that_a_member_may_repeat_is_repeated(
    shell: Shell, kafka_broker: FakeCluster
) -> None:
    kafka_broker.create_topic("orders", 1)
    kafka_broker.produce("orders", b"a")
    # No heartbeat response has told the member yet: it is still a member.
    kafka_broker.control(ApiKey.OFFSET_COMMIT, error=UnknownMemberIdError)
    process = shell.start(
        *("consume", "orders", "-g", "kitchen", "-X", "group.protocol=consumer"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until(
        lambda: (TopicPartition("orders", 0), 1) in kafka_broker.committed("kitchen").items()
    )
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=PATIENCE) == (b"a\n", b"")
    assert process.returncode == 143


def test_misspelled_topic_is_not_created(
    shell: Shell, kafka_broker: FakeCluster, kafka_topic: str
) -> None:
    assert "topic 'ordres' does not exist" in shell.fails(1, "consume", "ordres", "-e")
    assert "topic 'ordres' does not exist" in shell.fails(1, "produce", "ordres", stdin=b"a\n")
    assert "ordres" not in kafka_broker.state.topics


def test_closed_pipe_ends_a_following_reader_silently(shell: Shell, kafka_topic: str) -> None:
    shell.ok("produce", kafka_topic, stdin=b"a\nb\n")
    process = shell.start("consume", kafka_topic, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"a\n"
    process.stdout.close()  # nothing more will be written to it
    assert process.stderr is not None
    assert (process.wait(PATIENCE), process.stderr.read()) == (0, b"")
    process.stderr.close()


@pytest.mark.parametrize("offset", ["start", "end"])
def test_partition_added_while_following_is_read_from_its_start(
    shell: Shell, kafka_broker: FakeCluster, offset: str
) -> None:
    kafka_broker.create_topic("orders", 1)
    options = ("-o", offset, "-f", r"%p %v\n", "-X", "metadata.max.age.ms=200")
    process = shell.start("consume", "orders", *options, stdout=subprocess.PIPE)
    assert process.stdout is not None
    deadline = time.monotonic() + PATIENCE
    while not select.select([process.stdout], [], [], 0.2)[0]:  # until it follows the topic
        assert time.monotonic() < deadline
        kafka_broker.produce("orders", b"old")
    kafka_broker.add_partitions("orders", 3)
    kafka_broker.produce("orders", b"new", partition=2)
    lines = iter(process.stdout.readline, b"")
    assert next(line for line in lines if line != b"0 old\n") == b"2 new\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 143


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_a_following_reader(
    shell: Shell, kafka_broker: FakeCluster, kafka_topic: str, number: int, status: int
) -> None:
    shell.ok("produce", kafka_topic, stdin=b"a\n")
    process = shell.start(
        *("consume", kafka_topic, "-g", "kitchen"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"a\n"
    process.send_signal(number)
    assert process.communicate(timeout=PATIENCE) == (b"", b"")
    assert process.returncode == status
    assert kafka_broker.committed("kitchen") == {(kafka_topic, 0): 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("consume", "t", "-o", "x"), "is not an offset"),
        (("consume", "t", "-f", "%y"), "is not a verb"),
        (("consume", "t", "-J", "-f", "%v"), "cannot be combined"),
        (("consume", "t", "-g", "g", "-e"), "need a reader without a group"),
        (("produce", "t", "-J", "-K", ":"), "cannot be combined"),
        (("produce", "t", "--rate", "0"), "not a number of records"),
        (("produce", "t", "-X", "sasl.username=a"), "there is no terminal"),
        (("produce", "t", "-X", "transactional.id=a"), "needs --transaction"),
        (("consume", "t", "-X", "group.id=a"), "use -g"),
        (("consume",), "required: TOPIC"),
        (("consume", "t", "--nope"), "unrecognized arguments: --nope"),
    ],
)
def test_invalid_usage_exits_with_2(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("AIOKAFKA_LITE_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setattr(settings, "_has_terminal", lambda: False)
    try:
        status: object = main(arguments)
    except SystemExit as ended:
        status = ended.code
    captured = capsys.readouterr()
    assert (status, captured.out) == (2, "")
    assert message in captured.err


def test_unreachable_cluster_exits_with_1(tmp_path: Path) -> None:
    problem = Shell("127.0.0.1:9", tmp_path).fails(1, "consume", "t")
    assert problem.startswith("aiokafka-lite consume: KafkaConnectionError: ")
    assert "127.0.0.1:9" in problem
