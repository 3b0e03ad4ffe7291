"""Features that need a terminal: prompts, Ctrl-C, and no escape codes."""

import signal
from pathlib import Path

import pytest

from aiokafka_lite.testing import FakeCluster
from tests.unit.cli.commands import Shell, environment
from tests.unit.cli.terminal import Terminal

pytestmark = pytest.mark.timeout(300)


@pytest.mark.kafka(users={"alice": "wonder-land"}, topics=["orders"])
def test_password_is_prompted_for_and_never_shown(
    kafka_broker: FakeCluster, tmp_path: Path
) -> None:
    variables = environment(kafka_broker.bootstrap_servers, tmp_path)
    kafka_broker.produce("orders", b"one tea")
    terminal = Terminal("consume", "orders", "-e", "--user", "alice", environment=variables)
    terminal.until("Password for alice: ")
    terminal.type("wonder-land\n")
    terminal.until("one tea")
    assert terminal.end() == 0
    assert "wonder-land" not in terminal.output
    assert "\x1b" not in terminal.output

    terminal = Terminal("consume", "orders", "-e", "--user", "alice", environment=variables)
    terminal.until("Password for alice: ")
    terminal.type("looking-glass\n")
    assert terminal.end() == 1
    assert "SaslAuthenticationFailed" in terminal.output
    assert "looking-glass" not in terminal.output


def test_ctrl_c_and_ctrl_d_end_the_prompt(tmp_path: Path) -> None:
    variables = environment("127.0.0.1:9", tmp_path)
    for typed, status in (("\x03", 130), ("\x04", 2)):
        terminal = Terminal("consume", "orders", "--user", "alice", environment=variables)
        terminal.until("Password for alice: ")
        terminal.type(typed)
        assert terminal.end() == status
        assert "Traceback" not in terminal.output


@pytest.mark.kafka(topics=["orders"])
def test_plan_is_carried_out_only_after_a_yes(kafka_broker: FakeCluster, tmp_path: Path) -> None:
    variables = environment(kafka_broker.bootstrap_servers, tmp_path)
    for answer, left in (("n\n", True), ("\n", True), ("y\n", False)):
        terminal = Terminal("topic", "delete", "orders", environment=variables)
        terminal.until("Proceed? [y/N] ")
        assert "delete topic orders: 1 partitions" in terminal.output
        terminal.type(answer)
        assert terminal.end() == 0
        assert ("orders" in kafka_broker.state.topics) is left


def test_ctrl_c_ends_a_reader_and_a_writer(
    kafka_broker: FakeCluster, kafka_topic: str, tmp_path: Path
) -> None:
    variables = environment(kafka_broker.bootstrap_servers, tmp_path)
    writer = Terminal("produce", kafka_topic, "--report", r"at %o\n", environment=variables)
    writer.type("one tea\n")
    writer.until("one tea")  # the terminal's echo
    reader = Terminal("consume", kafka_topic, "-f", r"got %v\n", environment=variables)
    reader.until("got one tea")
    for each in (reader, writer):
        each.type("\x03")
        assert each.end() == 130
        assert "Traceback" not in each.output


def test_progress_of_a_move_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    with FakeCluster(3, {"orders": 4}) as cluster:
        variables = environment(cluster.bootstrap_servers, tmp_path)
        move = ("reassign", "apply", "orders", "--yes", "--wait", "--to")
        terminal = Terminal(*move, "1", environment=variables)
        assert terminal.end() == 0
        assert "reassign: 0 partitions in progress" in terminal.output
        shell = Shell(cluster.bootstrap_servers, tmp_path)
        done = shell.run(*move, "2")
        assert (done.returncode, done.stderr.count(b" in progress")) == (0, 0)
        assert done.stderr.count(b"orders/") == 4  # the plan


@pytest.mark.parametrize(("number", "status"), [(None, 130), (signal.SIGTERM, 143)])
def test_signal_at_the_prompt_ends_the_command_without_effect(
    tmp_path: Path, number: int | None, status: int
) -> None:
    with FakeCluster(1, ["orders"]) as cluster:
        variables = environment(cluster.bootstrap_servers, tmp_path)
        terminal = Terminal("topic", "delete", "orders", environment=variables)
        terminal.until("Proceed? [y/N] ")
        if number is None:
            terminal.type("\x03")
        else:
            terminal.process.send_signal(number)
        assert terminal.end() == status
        assert "Traceback" not in terminal.output
        assert "orders" in cluster.state.topics
