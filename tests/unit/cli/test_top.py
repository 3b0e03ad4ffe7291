"""`top`: rates from samples, the picture, `--once`, and a session in a terminal."""

import io
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import TopicPartition
from aiokafka_lite.cli.live.rates import WINDOW, History
from aiokafka_lite.cli.live.samples import GroupSample, Problem, Sample
from aiokafka_lite.testing import FakeCluster
from tests.unit.cli.commands import Shell, environment
from tests.unit.cli.terminal import Terminal
from tests.unit.cli.test_administration import commit

pytestmark = pytest.mark.timeout(300)

ORDERS, TEAS = TopicPartition("orders", 0), TopicPartition("teas", 0)
ENTER_SCREEN, LEAVE_SCREEN = "\x1b[?1049h", "\x1b[?1049l"


def sample(at: float, ends: dict[TopicPartition, int], **groups: dict[TopicPartition, int]) -> Any:
    return Sample(
        at,
        ends,
        {
            name: GroupSample(
                "Stable", "consumer", positions, {tp: ends[tp] - at for tp, at in positions.items()}
            )
            for name, positions in groups.items()
        },
        {"orders": 1, "teas": 1},
        (),
    )


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def test_rates_are_differences_within_the_window() -> None:
    history = History()
    history.on_sample(sample(100.0, {ORDERS: 1000, TEAS: 5}, kitchen={ORDERS: 500}))
    view = history.view()
    assert column(view.groups, "in_per_s") == [None]
    assert column(view.topics, "in_per_s") == [None, None]
    history.on_sample(sample(102.0, {ORDERS: 1200, TEAS: 5}, kitchen={ORDERS: 520}))
    view = history.view()
    [group] = view.groups
    assert (group["lag"], group["in_per_s"], group["out_per_s"]) == (680, 100.0, 10.0)
    assert column(view.topics, "topic") == ["orders", "teas"]
    assert column(view.topics, "in_per_s") == [100.0, 0.0]
    assert column(view.topics, "lag") == [680, None]
    history.on_sample(sample(102.0 + WINDOW, {ORDERS: 1200, TEAS: 5}, kitchen={ORDERS: 520}))
    view = history.view()  # the first sample is too old by now
    assert column(view.topics, "in_per_s") == [0.0, 0.0]


def test_offsets_that_move_back_are_no_rate() -> None:
    history = History()
    history.on_sample(sample(0.0, {ORDERS: 1000, TEAS: 5}, kitchen={ORDERS: 500}))
    history.on_sample(sample(1.0, {ORDERS: 10, TEAS: 9}, kitchen={ORDERS: 0}, new={TEAS: 7}))
    view = history.view("name")
    assert column(view.topics, "in_per_s") == [0.0, 4.0]
    assert column(view.groups, "out_per_s") == [0.0, 0.0]
    assert column(view.topics, "groups") == [1, 1]


def test_each_order_and_its_reverse() -> None:
    history = History()
    ends = {ORDERS: 100, TEAS: 100}
    history.on_sample(sample(0.0, ends, a={ORDERS: 0}, b={TEAS: 50}, c={}))
    history.on_sample(sample(1.0, {ORDERS: 110, TEAS: 105}, a={ORDERS: 1}, b={TEAS: 90}, c={}))
    orders = {
        ("lag", False): "abc",
        ("lag", True): "bac",
        ("in", False): "abc",
        ("in", True): "cba",
        ("out", False): "bac",
        ("name", False): "abc",
        ("name", True): "cba",
    }
    for (sort, reverse), expected in orders.items():
        rows = history.view(sort, reverse=reverse).groups
        assert "".join(column(rows, "group")) == expected, (sort, reverse)


def test_picture_fits_into_every_size() -> None:
    console_of = pytest.importorskip("rich.console", reason="rich is not installed").Console
    from aiokafka_lite.cli.live.live_screen import picture

    groups = {f"group-{n:02}\x1b[31m": {ORDERS: n} for n in range(40)}
    history = History()
    history.on_sample(sample(0.0, {ORDERS: 1_000_000, TEAS: 5}, **groups))
    problem = Problem("orders", 0, None, (1, 2), (1, 2))
    newest = sample(1.0, {ORDERS: 1_000_000, TEAS: 5}, **groups)
    history.on_sample(
        Sample(1.0, newest.ends, newest.groups, newest.partitions, (problem,) * 9, ())
    )
    for width, height in ((80, 24), (200, 60), (40, 12), (20, 5), (1, 1)):
        console = console_of(width=width, height=height, file=io.StringIO())
        with console.capture() as captured:
            console.print(picture(history.view(), width, height, "title", "lag", ""))
        lines = captured.get().splitlines()
        assert all(len(line) <= width for line in lines)
        if height >= 12:
            assert len(lines) <= height
            assert "no leader" in captured.get() or width < 80
            assert ("more" in captured.get()) is (height < 60)
        assert "\x1b[31m" not in captured.get()


@pytest.mark.kafka(topics=["orders", "teas"])
def test_once_prints_lags_for_scripts(kafka_broker: FakeCluster, tmp_path: Path) -> None:
    shell = Shell(kafka_broker.bootstrap_servers, tmp_path)
    for _ in range(5):
        kafka_broker.produce("orders", b"one tea")
    commit(kafka_broker, "kitchen", {("orders", 0): 2})
    found = json.loads(shell.ok("top", "--once", "--interval", "100ms", "-o", "json"))
    [group] = found["groups"]
    assert (group["group"], group["state"], group["lag"]) == ("kitchen", "Empty", 3)
    assert (group["in_per_s"], group["out_per_s"]) == (0.0, 0.0)
    assert [(row["topic"], row["lag"]) for row in found["topics"]] == [
        ("orders", 3),
        ("teas", None),
    ]
    assert found["unhealthy"] == []
    # Without a terminal it ends, too, and writes no escape codes.
    plain = shell.ok("top", "--interval", "100ms").decode()
    assert "kitchen  Empty" in plain
    assert "\x1b" not in plain


def test_unreachable_cluster_is_an_error(tmp_path: Path) -> None:
    shell = Shell("127.0.0.1:9", tmp_path)
    assert "127.0.0.1:9" in shell.fails(1, "top", "--timeout", "1s")


def start(cluster: FakeCluster, home: Path, **options: Any) -> Terminal:
    pytest.importorskip("rich", reason="rich is not installed")
    variables = {**environment(cluster.bootstrap_servers, home), "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        variables.pop(name, None)
    return Terminal("top", "--interval", "200ms", environment=variables, **options)


@pytest.mark.kafka(topics=["orders", "teas"])
@pytest.mark.parametrize(("key", "status"), [("q", 0), ("\x03", 130)])
def test_keys_sort_and_quit_and_the_terminal_is_restored(
    kafka_broker: FakeCluster, tmp_path: Path, key: str, status: int
) -> None:
    commit(kafka_broker, "kitchen", {("orders", 0): 0})
    terminal = start(kafka_broker, tmp_path)
    modes = terminal.modes()
    terminal.until("kitchen")
    assert ENTER_SCREEN in terminal.output
    assert terminal.modes() != modes
    terminal.until("LAG*")
    terminal.type("n")
    terminal.until("GROUP*")
    terminal.type("\x1b[A")  # an arrow does nothing
    terminal.type("i")
    terminal.until("IN/S*")
    kafka_broker.produce("orders", b"one tea")
    terminal.until(" 1 ")
    terminal.type(key)
    assert terminal.end() == status
    assert terminal.final_modes == modes
    assert LEAVE_SCREEN in terminal.output
    assert "Traceback" not in terminal.output


@pytest.mark.kafka(topics=["orders"])
def test_resized_terminal_is_drawn_anew(kafka_broker: FakeCluster, tmp_path: Path) -> None:
    for number in range(30):
        kafka_broker.create_topic(f"topic-{number:02}", 1)
    terminal = start(kafka_broker, tmp_path, size=(12, 80))
    terminal.until("more")
    assert "topic-29" not in terminal.output
    terminal.resize(60, 80)
    terminal.until("topic-29")
    terminal.type("q")
    assert terminal.end() == 0


@pytest.mark.kafka(topics=["orders"])
def test_lost_broker_is_shown_and_waited_for(kafka_broker: FakeCluster, tmp_path: Path) -> None:
    terminal = start(kafka_broker, tmp_path)
    terminal.until("orders")
    kafka_broker.kill(0)
    terminal.until("Timeout")
    kafka_broker.restart(0)
    kafka_broker.create_topic("teas", 1)
    terminal.until("teas")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.end() == 143
    assert LEAVE_SCREEN in terminal.output


@pytest.mark.kafka(topics=["orders"])
def test_terminal_without_a_screen_gets_plain_text(
    kafka_broker: FakeCluster, tmp_path: Path
) -> None:
    variables = {**environment(kafka_broker.bootstrap_servers, tmp_path), "TERM": "dumb"}
    terminal = Terminal("top", "--interval", "100ms", "--color", "never", environment=variables)
    assert terminal.end() == 0
    assert "orders" in terminal.output
    assert "\x1b" not in terminal.output
