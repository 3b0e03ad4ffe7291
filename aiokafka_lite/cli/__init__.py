"""The command line: ``python -m aiokafka_lite COMMAND``.

Each command is a module of this package with ``add_arguments(parser)`` and ``run(args) -> int``,
imported only when it is asked for.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

COMMANDS = {
    "demo": "200,000 records from 1,000 coroutines through Kafka and back, every one checked",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status: 0 when it did its work, 1 when not, 2 for bad usage."""
    parser = argparse.ArgumentParser(prog="python -m aiokafka_lite", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    modules = {}
    for name, purpose in COMMANDS.items():
        modules[name] = importlib.import_module(f"aiokafka_lite.cli.{name}")
        modules[name].add_arguments(commands.add_parser(name, help=purpose, description=purpose))
    args = parser.parse_args(argv)
    status: int = modules[args.command].run(args)
    return status
