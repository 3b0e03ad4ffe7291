"""No verb writes an escape code unless a terminal reads it, regardless of TERM."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiokafka_lite.cli import COMMANDS, command_parsers, complete_parser, main
from aiokafka_lite.cli.introspection.help_json import described
from aiokafka_lite.testing import FakeCluster
from tests.unit.cli.commands import PATIENCE, Shell, environment
from tests.unit.cli.terminal import Terminal
from tests.unit.cli.test_administration import commit

pytestmark = pytest.mark.timeout(300)

RED = "\x1b[31m"

SILENT = {"produce", "profile list"}

# Arguments by verb and action; {empty} is a file without bytes.
CALLS = {
    "acl create": "--allow User:a --operation read --topic orders",
    "acl delete": "--yes",
    "acl list": "",
    "bench consume": "orders --records 1",
    "bench latency": "orders --records 1",
    "bench produce": "orders --records 1",
    "cluster brokers": "",
    "cluster features": "",
    "cluster health": "",
    "cluster info": "",
    "cluster logdirs": "",
    "cluster quorum": "",
    "cluster versions": "",
    "completion": "bash",
    "config get": "topic orders",
    "config set": "topic orders retention.ms=1 --yes",
    "consume": "orders -e",
    "demo": "--records 100 --bootstrap {bootstrap}",
    "elect": "orders:0 --yes",
    "group delete": "kitchen --yes",
    "group delete-offsets": "kitchen --topic orders --yes",
    "group describe": "kitchen nope",
    "group lag": "kitchen",
    "group list": "",
    "group seek": "kitchen --to start --yes",
    "pipeline list": "",
    "pipeline show": "nope",
    "produce": "orders {empty}",
    "profile add": "mine -b localhost",
    "profile list": "",
    "profile remove": "nope",
    "profile show": "",
    "profile use": "nope",
    "quota list": "",
    "quota set": "--for-user a producer_byte_rate=1 --yes",
    "reassign apply": "orders --to 0 --yes",
    "reassign cancel": "--yes",
    "reassign list": "",
    "reassign plan": "orders --to 0",
    "share delete": "nope --yes",
    "share delete-offsets": "nope --topic orders --yes",
    "share describe": "nope",
    "share lag": "",
    "share list": "",
    "share seek": "cooks --to end --topic orders --yes",
    "top": "--interval 100ms",
    "topic alter": "orders --set retention.ms=1 --yes",
    "topic copy": "orders teas",
    "topic create": "coffees",
    "topic delete": "orders --yes",
    "topic describe": "orders nope",
    "topic list": "",
    "topic offsets": "orders",
    "topic trim": "orders -o end --yes",
    "txn abort": "orders:0 --yes",
    "txn describe": "nope",
    "txn list": "",
    "user create": "a",
    "user delete": "a --yes",
    "user list": "",
}
# They run for a long time, need Spark, or write a file: a terminal changes nothing for them.
NOT_CALLED = {"broker", "pipeline demo", "pipeline doctor", "pipeline pack", "pipeline run"}


def verbs() -> Iterator[str]:
    _, parsers = command_parsers()
    for name in COMMANDS:
        complete_parser(name, parsers[name])
        actions = described(parsers[name]).get("commands", {})
        yield from (f"{name} {action}" for action in actions) if actions else [name]


def test_every_verb_is_in_the_table() -> None:
    assert set(verbs()) == CALLS.keys() | NOT_CALLED


@pytest.mark.kafka(topics=["orders", "teas"])
@pytest.mark.parametrize("verb", sorted(CALLS))
def test_output_has_no_escape_codes(
    kafka_broker: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    verb: str,
) -> None:
    for name, value in environment(kafka_broker.bootstrap_servers, tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TERM", "xterm-256color")
    (tmp_path / "empty").touch()
    kafka_broker.produce("orders", b"one tea")
    commit(kafka_broker, "kitchen", {("orders", 0): 0})
    call = CALLS[verb].format(empty=tmp_path / "empty", bootstrap=kafka_broker.bootstrap_servers)
    try:
        status: object = main([*verb.split(), *call.split()])
    except SystemExit as ended:
        status = ended.code
    captured = capfd.readouterr()
    assert "unrecognized arguments" not in captured.err
    assert "required" not in captured.err
    assert captured.out or captured.err or verb in SILENT, status
    assert "\x1b" not in captured.out + captured.err


@pytest.mark.kafka(topics=["orders"])
def test_control_characters_of_a_broker_are_replaced(
    kafka_broker: FakeCluster, tmp_path: Path
) -> None:
    commit(kafka_broker, f"kitchen{RED}", {("orders", 0): 0})
    variables = environment(kafka_broker.bootstrap_servers, tmp_path)
    terminal = Terminal("groups", "--color", "never", environment=variables)
    assert terminal.end() == 0
    assert "kitchen?[31m" in terminal.output
    assert "\x1b" not in terminal.output


@pytest.mark.kafka(topics=["orders"])
def test_titles_are_bold_on_a_terminal_only(kafka_broker: FakeCluster, tmp_path: Path) -> None:
    variables = environment(kafka_broker.bootstrap_servers, tmp_path)
    variables.pop("NO_COLOR", None)
    terminal = Terminal("topics", environment=variables)
    assert terminal.end() == 0
    assert "\x1b[1mTOPIC" in terminal.output
    terminal = Terminal("topics", environment={**variables, "NO_COLOR": "1"})
    assert terminal.end() == 0
    assert "\x1b" not in terminal.output
    shell = Shell(kafka_broker.bootstrap_servers, tmp_path)
    assert b"\x1b" in shell.ok("topics", "--color", "always")


def test_embedded_broker_writes_plain_lines(tmp_path: Path) -> None:
    shell = Shell("", tmp_path)
    process = shell.start("broker", "--listen", "127.0.0.1:0", stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = os.read(process.stdout.fileno(), 4096)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=PATIENCE)
    assert b"Kafka is ready at" in line + rest
    assert b"\x1b" not in line + rest
