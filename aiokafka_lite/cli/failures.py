"""The errors of the command line, its exit statuses, and where both are reported."""

from __future__ import annotations

import os
import sys
from typing import Final

__all__ = [
    "FAILED",
    "INTERRUPTED",
    "OK",
    "TERMINATED",
    "USAGE",
    "ClosedPipe",
    "CommandError",
    "UsageError",
    "complain",
    "drop_stdout",
]

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
TERMINATED: Final = 143


class UsageError(Exception):
    """The arguments, a profile or an option are invalid; nothing was done."""


class CommandError(Exception):
    """The command failed; the message says what happened and what to do."""


class ClosedPipe(Exception):
    """The reader of stdout closed the pipe, as `head` does: the command ends without a message."""


def complain(verb: str, problem: object) -> None:
    """Print one problem on stderr."""
    text = str(problem) or type(problem).__name__
    print(f"aiokafka-lite {verb}: {text}", file=sys.stderr, flush=True)


def drop_stdout() -> None:
    """Redirect stdout to the null device: otherwise, the interpreter would report an error when
    it flushes stdout at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
