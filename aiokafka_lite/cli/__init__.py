"""The command line: `aiokafka-lite COMMAND`, or `python -m aiokafka_lite COMMAND`.

Each command is a module of `commands`, `NAME_command`, with `add_arguments(parser)` and
`run(args) -> int`. It is imported only when it is used, so that it does not slow down `--help` and
the other commands.

Argparse parses the arguments: it is imported in a few milliseconds, where click and typer take
several times as long, and completion and `--help-json` are generated from its parsers.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from aiokafka_lite._build import BUILD
from aiokafka_lite._version import __version__
from aiokafka_lite.cli.failures import FAILED, INTERRUPTED, complain, drop_stdout

ABOUT = "Tools of aiokafka_lite, an asyncio Kafka client."
EXAMPLES = "Run COMMAND --help for the options of a command."
COMMANDS = {
    "produce": "send lines, formatted records or JSON lines to a topic",
    "consume": "write the records of topics to standard output",
    "topic": "list, describe, create, alter, copy, trim and delete topics",
    "group": "list and describe groups, print their lag, move their offsets",
    "share": "list and describe share groups, print their lag, move their offsets",
    "cluster": "describe the cluster: brokers, health, controllers, features, disks",
    "config": "read and change configurations",
    "acl": "list, create and delete ACLs",
    "user": "list, create and delete users with SCRAM passwords",
    "quota": "list and set quotas",
    "reassign": "move the replicas of partitions between brokers",
    "elect": "elect leaders of partitions",
    "txn": "list, describe and abort transactions",
    "top": "watch the lag of groups, the rates of topics, and unhealthy partitions",
    "bench": "measure throughput and latency",
    "profile": "save connection settings under a name",
    "completion": "print a completion script for bash, zsh or fish",
    "broker": "run an embedded Kafka broker for development, without Java or Docker",
    "demo": "send 200,000 records from 1,000 coroutines, read them back and check every one",
    "pipeline": "run Kafka pipelines on Spark, each described by one file",
}
COMMAND_EXAMPLES = {
    "broker": "example: python -m aiokafka_lite broker --topics orders:6 --data-dir ./kafka",
    "demo": "example: python -m aiokafka_lite demo --bootstrap localhost:9092 --records 50000",
    "pipeline": "example: python -m aiokafka_lite pipeline demo",
}
PLURALS: Final = {"topics": "topic", "groups": "group"}
"""`topics` is `topic list`."""
_POSIX_COMMANDS: Final = ("produce", "consume", "top", "pipeline")
"""Commands that wait for pipes and terminals in ways that asyncio does not support on Windows."""
_OFFSET_FLAGS: Final = ("-o", "--offset", "--to")


class _Formatter(argparse.HelpFormatter):
    """Keeps the lines of examples.

    It finds the width of the terminal itself: argparse imports shutil for that, with all of its
    compression modules, and creates a formatter for every argument that is added.
    """

    def __init__(
        self, prog: str, indent: int = 2, position: int = 24, width: int | None = None, **more: Any
    ) -> None:
        super().__init__(prog, indent, position, width or _terminal_width() - 2, **more)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return "".join(indent + line for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)


class _Parser(argparse.ArgumentParser):
    """A parser with that formatter; its commands' parsers use it, too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**({"formatter_class": _Formatter} | options))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 for success, 1 for failure, 2 for bad usage."""
    _open_missing_streams()
    argv = _joined(sys.argv[1:] if argv is None else list(argv))
    parser, parsers = command_parsers()
    if argv and argv[0] in PLURALS:
        argv = [PLURALS[argv[0]], "list", *argv[1:]]
    wanted = argv[0] if argv else ""
    if wanted == "--complete":
        return _written_out(wanted, _complete(parser, parsers, argv[1:]))
    if wanted == "--help-json":
        return _written_out(wanted, _print_help_json(parser, parsers))
    if wanted not in COMMANDS:
        parser.parse_args(argv)  # prints the help or an error, and exits
    if sys.platform == "win32" and wanted in _POSIX_COMMANDS:
        print(f"{_program()}: {wanted} does not run on Windows: use WSL", file=sys.stderr)
        return FAILED
    module = complete_parser(wanted, parsers[wanted])
    try:
        status: int = module.run(parser.parse_args(argv))
    except KeyboardInterrupt:  # at a prompt; a command that runs handles its own
        print(file=sys.stderr)
        return INTERRUPTED
    return _written_out(wanted, status)


def _open_missing_streams() -> None:
    """Replace standard streams that were closed, so that no socket takes their numbers.

    Reading stdin and writing stdout still fail; output to stderr is dropped.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY))
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _written_out(verb: str, status: int) -> int:
    """Flush stdout, and return the status: lost output is a failure."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # as `head` does
        drop_stdout()
    except OSError as error:
        drop_stdout()
        complain(verb, f"standard output: {error.strerror}")
        return status or FAILED
    return status


def command_parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser, and that of each command, still without the command's arguments."""
    parser = _Parser(prog=_program(), description=ABOUT, epilog=EXAMPLES, allow_abbrev=False)
    parser.add_argument(
        "--version", action="version", version=f"aiokafka_lite {__version__} ({BUILD})"
    )
    parser.add_argument("--help-json", action="store_true", help="print all help as JSON and exit")
    # With `prog`, argparse does not format help now, which would import shutil.
    commands = parser.add_subparsers(
        prog=parser.prog, dest="command", required=True, metavar="COMMAND"
    )
    return parser, {
        name: commands.add_parser(
            name,
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.",
            epilog=COMMAND_EXAMPLES.get(name),
            allow_abbrev=False,
        )
        for name, purpose in COMMANDS.items()
    }


def complete_parser(name: str, parser: argparse.ArgumentParser) -> ModuleType:
    """Import a command, add its arguments to its parser, and return its module."""
    module = importlib.import_module(f"aiokafka_lite.cli.commands.{name}_command")
    module.add_arguments(parser)
    examples = getattr(module, "EXAMPLES", None)
    if examples:
        parser.epilog = examples.strip("\n")
        _add_examples_of_actions(name, parser, examples)
    return module


def _add_examples_of_actions(name: str, parser: argparse.ArgumentParser, examples: str) -> None:
    """Give each action, such as `topic list`, its lines of the command's examples."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb, each in action.choices.items():
                start = f"  aiokafka-lite {name} {verb}"
                lines = [
                    line for line in examples.splitlines() if f"{line} ".startswith(f"{start} ")
                ]
                each.epilog = "\n".join(["examples:", *lines])


def _complete(
    parser: argparse.ArgumentParser,
    parsers: dict[str, argparse.ArgumentParser],
    words: Sequence[str],
) -> int:
    from aiokafka_lite.cli.introspection.completing import candidates

    if len(words) > 1 and words[0] in parsers:
        complete_parser(words[0], parsers[words[0]])
    for each in candidates(parser, words):
        print(each)
    return 0


def _print_help_json(
    parser: argparse.ArgumentParser, parsers: dict[str, argparse.ArgumentParser]
) -> int:
    from aiokafka_lite.cli.introspection.help_json import help_as_json

    for name, each in parsers.items():
        complete_parser(name, each)
    print(help_as_json(parser))
    return 0


def _terminal_width() -> int:
    """Return the columns of the terminal, as `shutil.get_terminal_size` does."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else -1).columns or 80
    except (OSError, ValueError):
        return 80


def _program() -> str:
    name = sys.argv[0].rpartition("/")[2] if sys.argv else ""
    return "aiokafka-lite" if name == "aiokafka-lite" else "python -m aiokafka_lite"


def _joined(argv: list[str]) -> list[str]:
    """Join `-o -10:` to `-o-10:`; argparse would mistake `-10:` for a flag."""
    out: list[str] = []
    rest = iter(argv)
    for each in rest:
        following = next(rest, None) if each in _OFFSET_FLAGS else None
        if following is None:
            out.append(each)
        elif re.match(r"-\d", following):
            out.append(each + following if len(each) == 2 else f"{each}={following}")
        else:
            out += [each, following]
    return out
