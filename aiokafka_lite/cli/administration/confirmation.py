"""Destructive actions print their plan and ask for confirmation; without a terminal, they need
--yes."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Never

from aiokafka_lite.cli.failures import TERMINATED, UsageError

__all__ = ["add_confirmation_flags", "confirmed"]


def add_confirmation_flags(parser: argparse.ArgumentParser) -> None:
    """Add --yes and --dry-run."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done")


def confirmed(args: argparse.Namespace, plan: Sequence[str]) -> bool:
    """Print the plan on stderr and ask for confirmation; True if it is given.

    Raises:
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
    with _ended_by_signals():
        print("Proceed? [y/N] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
    if answer.strip().lower() in ("y", "yes"):
        return True
    print("nothing was done", file=sys.stderr)
    return False


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block at once.

    The prompt blocks the event loop, whose own handlers would only run after the answer.
    """
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, _terminate),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(number: int, frame: object) -> Never:
    raise SystemExit(TERMINATED)
