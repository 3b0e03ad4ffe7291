"""Help, help as JSON, completion, profiles; and what a command imports."""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite.cli import COMMANDS, command_parsers, complete_parser, main
from aiokafka_lite.cli.introspection import completing
from aiokafka_lite.cli.introspection.completing import candidates
from aiokafka_lite.cli.introspection.help_json import described
from aiokafka_lite.testing import FakeCluster
from tests.unit.cli.commands import Shell


def completed(*words: str) -> list[str]:
    parser, parsers = command_parsers()
    if words[0] in parsers:
        complete_parser(words[0], parsers[words[0]])
    return candidates(parser, words)


def help_of(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def each_verb() -> Iterator[tuple[str, dict[str, Any]]]:
    """The commands and actions with their descriptions; `pipeline` belongs to the Spark annexe."""
    _, parsers = command_parsers()
    for name in COMMANDS:
        if name != "pipeline":
            complete_parser(name, parsers[name])
            found = described(parsers[name])
            yield name, found
            for action, each in found.get("commands", {}).items():
                yield f"{name} {action}", each


@pytest.mark.parametrize(("verb", "found"), list(each_verb()))
def test_each_argument_is_explained_and_each_verb_has_an_example(
    verb: str, found: dict[str, Any]
) -> None:
    assert found["description"].endswith(".")
    for argument in found.get("arguments", []):
        assert argument.get("help"), argument
    lines = [line.strip() for line in found["examples"].splitlines()]
    program = r"(.*\| )?(\w+ <\()?(aiokafka-lite|example: python -m aiokafka_lite) "
    assert any(re.match(rf"{program}{verb}\b", line) for line in lines), lines


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "pipeline"])
def test_help_begins_with_the_purpose(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(command, capsys=capsys)
    assert COMMANDS[command].lower() in re.sub(r"\s+", " ", text.lower())
    assert "\x1b" not in text


def test_help_ends_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\nexamples:\n  " in help_of("produce", capsys=capsys)
    text = help_of("topic", "trim", capsys=capsys)
    assert text.endswith("\nexamples:\n  aiokafka-lite topic trim orders -o @-7d\n")


def test_help_as_json_describes_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help-json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["commands"]) == set(COMMANDS)
    arguments = found["commands"]["consume"]["arguments"]
    [count] = [each for each in arguments if "--count" in each.get("flags", [])]
    assert count["value"] == "N"
    assert count["help"] == "end after N records"
    assert "TOPIC" in [each.get("name") for each in arguments]
    assert set(found["commands"]["profile"]["commands"]) >= {"add", "list", "use"}


def test_completion_of_commands_flags_and_choices() -> None:
    assert completed("con") == ["config", "consume"]
    assert completed("consume", "--ta") == ["--tail"]
    assert completed("profile", "a") == ["add"]
    assert completed("completion", "") == ["bash", "fish", "zsh"]
    assert completed("consume", "--no-such-flag", "x", "-") != []


def test_completion_of_topics_and_profiles(
    kafka_broker: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOKAFKA_LITE_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(completing, "PATIENCE", 60.0)
    monkeypatch.setattr(completing, "KEPT_FOR", 3600.0)
    kafka_broker.create_topic("orders", 1)
    kafka_broker.create_topic("payments", 1)
    address = ("-b", kafka_broker.bootstrap_servers)
    assert completed("consume", *address, "o") == ["orders"]
    kafka_broker.create_topic("other", 1)
    assert completed("consume", *address, "o") == ["orders"]  # from the cache
    main(["profile", "add", "mine", *address])
    assert completed("consume", "--profile", "") == ["mine"]


def test_completion_without_a_cluster_has_no_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert completed("consume", "-b", "127.0.0.1:9", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_calls_the_program(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    assert "aiokafka-lite --complete" in capsys.readouterr().out


def test_bash_completes(tmp_path: Path) -> None:
    program = tmp_path / "aiokafka-lite"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m aiokafka_lite "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(aiokafka-lite completion bash)"; COMP_WORDS=(aiokafka-lite consume --ke);'
        ' COMP_CWORD=2; _aiokafka_lite; echo "${COMPREPLY[@]}"'
    )
    variables = Shell("127.0.0.1:9", tmp_path).environment
    done = subprocess.run(
        ["bash", "-c", script],
        env={**variables, "PATH": f"{tmp_path}:{variables['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("--keys-only\n", "")


def test_profiles_are_added_used_shown_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIOKAFKA_LITE_CONFIG", str(tmp_path / "config.toml"))

    def out(*words: str, status: int = 0) -> str:
        assert main(["profile", *words]) == status
        return capsys.readouterr().out

    out("add", "test", "-b", "t:1")
    out("add", "prod", "-b", "p:1", "--user", "alice", "--password", "secret", "--tls")
    assert out("list") == "  prod\n* test\n"
    out("use", "prod")
    shown = out("show")
    assert "security.protocol=SASL_SSL\n" in shown
    assert "secret" not in shown
    out("remove", "prod")
    assert out("list") == "  test\n"
    out("use", "nope", status=2)
    out("show", status=2)
    out("add", "empty", status=2)


def test_profile_with_an_unknown_option_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "config.toml"
    monkeypatch.setenv("AIOKAFKA_LITE_CONFIG", str(saved))

    assert main(["profile", "add", "p", "-b", "t:1", "-X", "fetch.min.bites=1"]) == 2

    expected = "-X fetch.min.bites: there is no such option; did you mean fetch.min.bytes?"
    assert expected in capsys.readouterr().err
    assert not saved.exists()


def test_help_imports_no_client() -> None:
    code = (
        "import sys; from aiokafka_lite.cli import main\n"
        "try:\n    main(['consume', '--help'])\n"
        "except SystemExit:\n    pass\n"
        "print([each for each in sys.modules if each in"
        " ('asyncio', 'ssl', 'shutil', 'aiokafka_lite.consumer', 'aiokafka_lite.testing')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_consume_imports_only_what_it_needs_to_start() -> None:
    code = (
        "import sys, aiokafka_lite.cli.transfer.consuming\n"
        "print([each for each in sys.modules if each.startswith(('aiokafka_lite.producer',"
        " 'aiokafka_lite.testing', 'aiokafka_lite.admin', 'aiokafka_lite.spark.pipeline',"
        " 'aiokafka_lite.group.membership', 'aiokafka_lite.net.sasl.scram', 'pathlib', 'shutil',"
        " 'encodings.idna', 'getpass', 'datetime', 'hashlib'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_help_json_of_a_small_parser() -> None:
    parser = argparse.ArgumentParser(prog="p", description="Does it.")
    parser.add_argument("-n", metavar="N", type=int, default=3, help="%% of it")
    parser.add_argument("things", nargs="*")
    assert described(parser) == {
        "usage": "p [-h] [-n N] [things ...]",
        "description": "Does it.",
        "arguments": [
            {"flags": ["-n"], "value": "N", "required": False, "default": 3, "help": "% of it"},
            {"name": "things", "required": False, "repeats": True},
        ],
    }
