"""Runs a command in an event loop, and converts its outcome to an exit status.

0: done; 1: something failed; 2: the arguments are invalid; 130: Ctrl-C; 143: SIGTERM. A closed pipe
(`consume ... | head -1`) ends a command silently, with 0.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from aiokafka_lite.cli.failures import (
    FAILED,
    INTERRUPTED,
    OK,
    TERMINATED,
    USAGE,
    ClosedPipe,
    CommandError,
    UsageError,
    complain,
    drop_stdout,
)
from aiokafka_lite.errors import KafkaConfigurationError, KafkaError

__all__ = ["Work", "configure_logging", "execute", "run_prepared"]

Work: TypeAlias = Callable[[], Coroutine[Any, Any, int]]
"""Starts the work of a command, which returns its exit status."""


def run_prepared(
    verb: str,
    args: argparse.Namespace,
    prepare: Callable[[], Work],
    *,
    quiet: bool | None = None,
) -> int:
    """Check the arguments of a command, run it to its end, and return its exit status.

    Args:
        verb: The command's name, for its errors.
        args: With `quiet` and `verbose`.
        prepare: Checks the arguments without connecting; it raises UsageError.
        quiet: True to log errors only; None: as `args` says.
    """
    configure_logging(args.quiet if quiet is None else quiet, args.verbose)
    collects = gc.isenabled()
    gc.disable()  # imports create many objects, but no garbage
    try:
        work = prepare()
    except UsageError as error:
        complain(verb, error)
        return USAGE
    finally:
        if collects:
            gc.enable()
    return execute(verb, work)


def execute(verb: str, work: Work) -> int:
    """Run a command to its end and return its exit status; errors are printed on stderr.

    The first Ctrl-C or SIGTERM cancels the command, which gets a few seconds to close its clients.
    A second Ctrl-C ends it at once.
    """
    try:
        return asyncio.run(_until_terminated(work()))
    except KeyboardInterrupt:
        return INTERRUPTED
    except asyncio.CancelledError:
        return TERMINATED
    except (ClosedPipe, BrokenPipeError):
        drop_stdout()
        return OK
    except (UsageError, KafkaConfigurationError) as error:  # a client refuses its options
        complain(verb, error)
        return USAGE
    except (CommandError, KafkaError, OSError, ValueError) as error:
        complain(verb, error)
        return FAILED


def configure_logging(quiet: bool, verbose: int) -> None:
    """Send the clients' log to stderr: warnings by default, errors with -q, more with -v."""
    level = logging.ERROR if quiet else logging.WARNING
    if verbose:
        level = logging.INFO if verbose == 1 else logging.DEBUG
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s", force=True)
    logging.getLogger("asyncio").setLevel(max(level, logging.WARNING))


async def _until_terminated(work: Coroutine[Any, Any, int]) -> int:
    task = asyncio.current_task()
    if task is not None and sys.platform != "win32":  # Windows has no SIGTERM
        # With this handler, every signal wakes the event loop. Otherwise, a Ctrl-C just before the
        # loop waits would have no effect until something else happens.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work
