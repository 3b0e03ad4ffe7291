"""The command line: `python -m aiokafka_lite COMMAND`.

Each command is a module of this package with `add_arguments(parser)` and `run(args) -> int`,
imported only when it is used.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from aiokafka_lite._build import BUILD
from aiokafka_lite._version import __version__

ABOUT = "Tools of aiokafka_lite, an asyncio Kafka client."
EXAMPLES = "Run COMMAND --help for the options of a command."
COMMANDS = {
    "broker": "run an embedded Kafka broker for development, without Java or Docker",
    "demo": "send 200,000 records from 1,000 coroutines, read them back and check every one",
    "pipeline": "run Kafka pipelines on Spark, each described by one file",
}
COMMAND_EXAMPLES = {
    "broker": "example: python -m aiokafka_lite broker --topics orders:6 --data-dir ./kafka",
    "demo": "example: python -m aiokafka_lite demo --bootstrap localhost:9092 --records 50000",
    "pipeline": "example: python -m aiokafka_lite pipeline demo",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 for success, 1 for failure, 2 for bad usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    parser = argparse.ArgumentParser(
        prog="python -m aiokafka_lite", description=ABOUT, epilog=EXAMPLES
    )
    parser.add_argument(
        "--version", action="version", version=f"aiokafka_lite {__version__} ({BUILD})"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parsers = {
        name: commands.add_parser(
            name,
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.",
            epilog=COMMAND_EXAMPLES[name],
        )
        for name, purpose in COMMANDS.items()
    }
    wanted = argv[0] if argv else ""
    if wanted not in COMMANDS:
        parser.parse_args(argv)  # prints the help or an error, and exits
    module = importlib.import_module(f"aiokafka_lite.cli.{wanted}")
    module.add_arguments(parsers[wanted])
    status: int = module.run(parser.parse_args(argv))
    return status
