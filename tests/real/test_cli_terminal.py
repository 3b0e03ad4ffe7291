"""Features that need a terminal, against a real Kafka: `top`, prompts, Ctrl-C, progress."""

import asyncio
import re
import uuid
from itertools import repeat
from pathlib import Path

import pytest

from aiokafka_lite import AIOKafkaAdminClient, AIOKafkaProducer, TopicPartition
from tests.conftest import TopicFactory
from tests.real.visibility import topic_is_gone
from tests.unit.cli.commands import environment
from tests.unit.cli.terminal import Terminal
from tools.kafka import RealKafka

LEAVE_SCREEN = "\x1b[?1049l"


@pytest.fixture
def variables(kafka: RealKafka, tmp_path: Path) -> dict[str, str]:
    found = {**environment(kafka.bootstrap_servers, tmp_path), "TERM": "xterm-256color"}
    return {name: value for name, value in found.items() if name not in ("COLUMNS", "LINES")}


def produce(variables: dict[str, str], topic: str, *lines: str) -> None:
    """Send typed lines, and end with Ctrl-D."""
    writer = Terminal("produce", topic, "--report", r"at %o\n", environment=variables)
    for line in lines:
        writer.type(f"{line}\n")
        writer.until("at ")
    writer.type("\x04")
    assert writer.end() == 0


async def commit(kafka: RealKafka, group: str, topic: str, offset: int) -> None:
    async with AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        done = await admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): offset})
        done.raise_for_errors()


async def test_top_sorts_resizes_and_leaves_a_clean_terminal(
    kafka: RealKafka, topic: TopicFactory, variables: dict[str, str]
) -> None:
    pytest.importorskip("rich", reason="rich is not installed")
    name, *_ = [topic() for _ in range(3)]  # more than ten lines show
    group = f"a-{uuid.uuid4().hex[:8]}"
    # Enough records that group and topic lead the lists, regardless of what other tests left.
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.send_many(name, repeat(b"tea", 200_000))
    await commit(kafka, group, name, 1)
    terminal = Terminal("top", "--interval", "300ms", environment=variables, size=(40, 150))
    modes = terminal.modes()
    terminal.until(group)
    assert terminal.modes() != modes  # keys are read one by one, without an echo
    for key, title in (("n", "GROUP*"), ("i", "IN/S*"), ("o", "OUT/S*"), ("l", "LAG*")):
        terminal.type(key)
        terminal.until(title)
    terminal.resize(10, 60)
    terminal.until("more")
    terminal.resize(60, 150)
    terminal.until(name)
    terminal.type("\x03")
    assert terminal.end() == 130
    assert terminal.final_modes == modes
    assert terminal.output.rstrip().endswith(LEAVE_SCREEN) or LEAVE_SCREEN in terminal.output
    left = terminal.output.rpartition(LEAVE_SCREEN)[2]
    assert "Traceback" not in left
    assert terminal.output.count("\x1b[?25h") >= terminal.output.count("\x1b[?25l")  # the cursor


def test_ctrl_c_ends_a_reader_of_a_group_after_its_commit(
    kafka: RealKafka, topic: TopicFactory, variables: dict[str, str]
) -> None:
    name, group = topic(), f"cli-{uuid.uuid4().hex[:8]}"
    produce(variables, name, "one", "two")
    reader = Terminal("consume", name, "-g", group, "-f", r"got %v\n", environment=variables)
    modes = reader.modes()
    reader.until("got two")
    reader.type("\x03")
    assert reader.end() == 130
    assert reader.final_modes == modes
    lag = Terminal("group", "lag", group, "--total", "--no-header", environment=variables)
    assert lag.end() == 0
    assert re.search(rf"{group}\s+1\s+0\s", lag.output), lag.output


def test_ctrl_c_ends_a_writer_after_its_delivery(
    topic: TopicFactory, variables: dict[str, str]
) -> None:
    name = topic()
    writer = Terminal("produce", name, "--tee", "-X", "linger.ms=60000", environment=variables)
    for line in ("first", "second"):  # once the second is written by --tee, the first was sent
        writer.type(f"{line}\n")
        writer.until(f"{line}\r\n{line}")  # the terminal's echo, and --tee
    writer.type("\x03")
    assert writer.end() == 130
    reader = Terminal("consume", name, "-e", environment=variables)
    assert reader.end() == 0
    assert "first" in reader.output
    assert "Traceback" not in writer.output


def test_prompt_is_answered(
    kafka: RealKafka, topic: TopicFactory, variables: dict[str, str]
) -> None:
    name = topic()
    for answer, status in (("\x03", 130), ("no\n", 0), ("yes\n", 0)):
        terminal = Terminal("topic", "delete", name, environment=variables)
        terminal.until("Proceed? [y/N] ")
        terminal.type(answer)
        assert terminal.end() == status
        assert ("nothing was done" in terminal.output) is (answer == "no\n")
    asyncio.run(topic_is_gone(kafka.bootstrap_servers, name))
    gone = Terminal("topic", "describe", name, environment=variables)
    assert gone.end() == 1
