"""Destructive actions print their plan and ask for confirmation; without a terminal, they need
--yes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from aiokafka_lite.cli.failures import UsageError
from aiokafka_lite.cli.streams.input import read_line

__all__ = ["add_confirmation_flags", "confirmed"]


def add_confirmation_flags(parser: argparse.ArgumentParser) -> None:
    """Add --yes and --dry-run."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done")


async def confirmed(args: argparse.Namespace, plan: Sequence[str]) -> bool:
    """Print the plan on stderr and ask for confirmation; True if it is given.

    The event loop waits for the answer. A blocking read would miss a signal that arrives just
    before it: Python handles signals between its own instructions, and only an interrupted read
    returns to them.

    Raises:
        CommandError: The terminal cannot be read.
        UsageError: There is no terminal for the question, and no --yes.
    """
    for line in plan:
        print(line, file=sys.stderr)
    if args.dry_run:
        return False
    if args.yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("nothing was done: there is no terminal for the confirmation; add --yes")
    print("Proceed? [y/N] ", end="", file=sys.stderr, flush=True)
    if (await read_line()).strip().lower() in (b"y", b"yes"):
        return True
    print("nothing was done", file=sys.stderr)
    return False
