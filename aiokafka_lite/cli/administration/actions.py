"""Code that the administrative commands share: their actions, the admin client, and its errors."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from aiokafka_lite.cli.administration.output import add_output_flags
from aiokafka_lite.cli.connection.flags import add_connection_flags
from aiokafka_lite.cli.failures import FAILED, OK, UsageError, complain

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient
    from aiokafka_lite.cli.connection.lookup import Lookup

__all__ = ["Action", "Actions", "LookupWork", "pairs", "report", "run_action", "run_lookup"]

Action: TypeAlias = "Callable[[AIOKafkaAdminClient, argparse.Namespace], Coroutine[Any, Any, int]]"
"""Does the work of one action, and returns the exit status."""

LookupWork: TypeAlias = "Callable[[Lookup, argparse.Namespace], Coroutine[Any, Any, int]]"
"""The same for an action that needs more than the admin client."""


class Actions:
    """The actions of a command, such as `topic list`.

    Args:
        parser: The command's parser.
    """

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._commands = parser.add_subparsers(
            prog=parser.prog, dest="action", required=True, metavar="ACTION"
        )

    def add(
        self,
        name: str,
        purpose: str,
        action: Action | None,
        *,
        prints: bool = True,
        takes_offset: bool = False,
    ) -> argparse.ArgumentParser:
        """Add an action and return its parser, with the connection and output flags.

        Args:
            name: Its name.
            purpose: What it does.
            action: Runs the action; None if the command runs it without the admin client.
            prints: False if it has no output to format.
            takes_offset: True if the action uses -o for an offset.
        """
        parser = self._commands.add_parser(
            name,
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.",
            allow_abbrev=False,
        )
        parser.set_defaults(execute=action)
        if prints:
            add_output_flags(parser, short=not takes_offset)
        add_connection_flags(parser)
        return parser


def run_action(verb: str, args: argparse.Namespace) -> int:
    """Connect an admin client, run the action, and return the exit status."""
    from aiokafka_lite.cli.connection.admin import admin_arguments
    from aiokafka_lite.cli.connection.client_arguments import shared_arguments
    from aiokafka_lite.cli.connection.settings import gather
    from aiokafka_lite.cli.running import Work, run_prepared

    def prepare() -> Work:
        arguments = admin_arguments(shared_arguments(gather(args)))

        async def work() -> int:
            from aiokafka_lite.admin.client import AIOKafkaAdminClient

            async with AIOKafkaAdminClient(**arguments) as admin:
                status: int = await args.execute(admin, args)
                return status

        return work

    # Errors of items are printed below; the client would also log them as warnings.
    return run_prepared(verb, args, prepare, quiet=args.quiet or not args.verbose)


def run_lookup(verb: str, args: argparse.Namespace, work: LookupWork) -> int:
    """Connect, run an action that needs more than the admin client, and return the exit status."""
    from aiokafka_lite.cli.connection.client_arguments import shared_arguments
    from aiokafka_lite.cli.connection.lookup import open_lookup
    from aiokafka_lite.cli.connection.settings import gather
    from aiokafka_lite.cli.running import Work, run_prepared

    def prepare() -> Work:
        settings = gather(args)
        arguments = shared_arguments(settings)

        async def run_work() -> int:
            async with open_lookup(arguments, settings.timeout) as lookup:
                return await work(lookup, args)

        return run_work

    return run_prepared(verb, args, prepare)


def report(verb: str, errors: Mapping[Any, Exception]) -> int:
    """Print the error of each item; return 1 if there is one, otherwise 0."""
    for error in errors.values():
        complain(verb, error)
    return FAILED if errors else OK


def pairs(flag: str, texts: list[str]) -> dict[str, str]:
    """Return the values of NAME=VALUE arguments by name.

    Raises:
        UsageError: An argument has no "=" or no name.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"{flag} {text!r} is not NAME=VALUE")
        found[name] = value
    return found
