"""`top`: a live view of the lag of groups, the rates of topics, and unhealthy partitions."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Final

from aiokafka_lite.cli.administration.output import Output, add_output_flags
from aiokafka_lite.cli.connection.durations import duration
from aiokafka_lite.cli.connection.flags import add_connection_flags
from aiokafka_lite.cli.failures import FAILED, OK, UsageError, complain

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient
    from aiokafka_lite.cli.live.rates import View

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite top
  aiokafka-lite top --sort in --interval 5s
  aiokafka-lite top --once -o json        for scripts: two samples, one interval apart

keys:
  l, i, o, n   sort by lag, rate in, rate out, name; the same key again reverses the order
  q            quit, as does Ctrl-C

Rates are records a second, as offsets count them, over the last ten seconds: IN is what producers
wrote, OUT what groups committed. LAG is what groups have not committed. A red group has lag and
commits nothing.
"""

_ORDERS: Final = ("lag", "in", "out", "name")
_KEYS: Final = {order[0]: order for order in _ORDERS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `top`."""
    add = parser.add_argument
    add(
        "--interval",
        metavar="TIME",
        type=duration,
        default=2.0,
        help="time between two samples of the cluster; default: 2s",
    )
    add("--sort", choices=_ORDERS, default="lag", help="the first order; default: lag")
    add(
        "--once",
        action="store_true",
        help="take two samples, one interval apart, print the result and exit; the default"
        " without a terminal",
    )
    add("-i", "--internal", action="store_true", help="Kafka's own topics, too")
    add_output_flags(parser)
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Show the cluster until a key ends it; with --once print it, and return 1 after errors."""
    from aiokafka_lite.cli.connection.admin import admin_arguments
    from aiokafka_lite.cli.connection.client_arguments import shared_arguments
    from aiokafka_lite.cli.connection.settings import gather
    from aiokafka_lite.cli.running import Work, run_prepared

    once = args.once or args.output != "table" or not _is_screen()
    if not once:
        args.verbose = 0  # the screen itself shows problems, and a log would overwrite it

    def prepare() -> Work:
        if not once:
            _check_rich()
        settings = gather(args)
        arguments = admin_arguments(shared_arguments(settings))

        async def work() -> int:
            from aiokafka_lite.admin.client import AIOKafkaAdminClient

            async with AIOKafkaAdminClient(**arguments) as admin:
                if once:
                    return await _print_once(admin, args, settings.timeout)
                return await _Top(admin, args, settings.timeout).run()

        return work

    return run_prepared("top", args, prepare, quiet=args.quiet or not args.verbose)


def _is_screen() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def _check_rich() -> None:
    try:
        import rich  # noqa: F401 - only to learn whether it is there
    except ModuleNotFoundError:
        raise UsageError(
            "the live view needs rich: install aiokafka-lite[cli], or use --once"
        ) from None


async def _print_once(admin: AIOKafkaAdminClient, args: argparse.Namespace, timeout: float) -> int:
    from aiokafka_lite.cli.live import rates
    from aiokafka_lite.cli.live.samples import take_sample

    history = rates.History()
    history.on_sample(await take_sample(admin, internal=args.internal, timeout=timeout))
    await asyncio.sleep(args.interval)
    history.on_sample(await take_sample(admin, internal=args.internal, timeout=timeout))
    view = history.view(args.sort)
    Output(args).sections(
        {
            "groups": (rates.GROUP_COLUMNS, view.groups),
            "topics": (rates.TOPIC_COLUMNS, view.topics),
            "unhealthy": (rates.PROBLEM_COLUMNS, view.problems),
        }
    )
    for error in view.errors:
        complain("top", error)
    return FAILED if view.errors else OK


class _Top:
    """The live view: samples the cluster at each interval, and redraws after each key."""

    def __init__(
        self, admin: AIOKafkaAdminClient, args: argparse.Namespace, timeout: float
    ) -> None:
        from aiokafka_lite.cli.live.rates import History

        self._admin = admin
        self._args = args
        self._timeout = timeout
        self._history: History = History()
        self._sort: str = args.sort
        self._reverse = False
        self._changed = asyncio.Event()
        self._ended = False
        self._trouble = ""
        self._looked = ""

    async def run(self) -> int:
        """Show the cluster until `q` is pressed or the terminal is closed."""
        from aiokafka_lite.cli.live.keyboard import keys_from_terminal
        from aiokafka_lite.cli.live.live_screen import Screen

        loop = asyncio.get_running_loop()
        color = self._args.color != "never" and not os.environ.get("NO_COLOR")
        looking = asyncio.create_task(self._look(), name="sample the cluster")
        loop.add_signal_handler(signal.SIGWINCH, self._changed.set)
        try:
            with keys_from_terminal(self._on_key), Screen(color=color) as screen:
                while not self._ended:
                    view = self._history.view(self._sort, reverse=self._reverse)
                    screen.show(view, title=self._title(), sort=self._sort, note=self._note(view))
                    await self._changed.wait()
                    self._changed.clear()
                    if looking.done():
                        looking.result()  # raises the exception that ended it
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            looking.cancel()
            await asyncio.wait([looking])
        return OK

    async def _look(self) -> None:
        from aiokafka_lite.cli.live.samples import take_sample
        from aiokafka_lite.errors import KafkaError

        loop = asyncio.get_running_loop()
        try:
            while True:
                began = loop.time()
                try:
                    sample = await take_sample(
                        self._admin, internal=self._args.internal, timeout=self._timeout
                    )
                except KafkaError as error:
                    self._trouble = str(error) or type(error).__name__
                else:
                    self._trouble = ""
                    self._history.on_sample(sample)
                    self._looked = datetime.now().strftime("%H:%M:%S")
                self._changed.set()
                await asyncio.sleep(max(0.0, began + self._args.interval - loop.time()))
        finally:
            self._changed.set()

    def _on_key(self, key: str) -> None:
        if key in ("", "q", "Q"):
            self._ended = True
        elif key in _KEYS:
            order = _KEYS[key]
            self._reverse = order == self._sort and not self._reverse
            self._sort = order
        self._changed.set()

    def _title(self) -> str:
        every = f"every {self._args.interval:g} s"
        return f"aiokafka-lite top  {self._looked or 'connecting ...'}  {every}"

    def _note(self, view: View) -> str:
        if self._trouble:
            return self._trouble
        if view.errors:
            more = f" (and {len(view.errors) - 1} more)" if len(view.errors) > 1 else ""
            return view.errors[0] + more
        return ""
