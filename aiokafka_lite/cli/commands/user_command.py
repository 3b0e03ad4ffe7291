"""`user list|create|delete`: administers the SCRAM credentials of users."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite.cli.administration.actions import Actions, report, run_action
from aiokafka_lite.cli.administration.confirmation import add_confirmation_flags, confirmed
from aiokafka_lite.cli.administration.output import Output
from aiokafka_lite.cli.failures import OK, USAGE, UsageError, complain

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite user list
  aiokafka-lite user create alice                     asks for the password twice
  aiokafka-lite user create alice --password-stdin < secret
  aiokafka-lite user delete alice --mechanism SCRAM-SHA-256
"""

_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `user`."""
    actions = Actions(parser)
    listed = actions.add("list", "list users with their mechanisms", _list)
    listed.add_argument("names", metavar="NAME", nargs="*", help="list only these users")
    created = actions.add("create", "create a user, or set the password", _create, prints=False)
    created.add_argument("name", metavar="NAME", help="the user")
    _mechanism(created)
    created.add_argument(
        "--password-stdin", action="store_true", help="read the new password from stdin"
    )
    deleted = actions.add("delete", "delete the credential of a user", _delete, prints=False)
    deleted.add_argument("name", metavar="NAME", help="the user")
    _mechanism(deleted)
    add_confirmation_flags(deleted)


def _mechanism(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mechanism",
        choices=_MECHANISMS,
        default="SCRAM-SHA-512",
        help="the SASL mechanism of the password; default: SCRAM-SHA-512",
    )


def run(args: argparse.Namespace) -> int:
    """Run the action; the prompt comes first, while Ctrl-C still ends the command at once."""
    if args.action == "create":
        try:
            args.new_password = _new_password(args)
        except UsageError as error:
            complain("user", error)
            return USAGE
    return run_action("user", args)


def _new_password(args: argparse.Namespace) -> str:
    if args.password_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    elif not sys.stdin.isatty():
        raise UsageError("there is no terminal to prompt for the password: add --password-stdin")
    else:
        password = getpass.getpass(f"New password for {args.name}: ")
        if getpass.getpass("Repeat the password: ") != password:
            raise UsageError("the passwords differ; nothing was done")
    if not password:
        raise UsageError("the password is empty; nothing was done")
    return password


async def _list(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    found = await admin.describe_user_scram_credentials(args.names or None)
    rows: list[dict[str, Any]] = [
        {
            "user": name,
            "mechanism": each.mechanism.name.replace("_", "-"),
            "iterations": each.iterations,
        }
        for name, credentials in sorted(found.valid().items())
        for each in credentials
    ]
    Output(args).rows(["user", "mechanism", "iterations"], rows)
    return report("user", found.errors())


async def _create(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    from aiokafka_lite.admin import ScramMechanism, UserScramCredentialUpsertion

    mechanism = ScramMechanism[args.mechanism.replace("-", "_")]
    change = UserScramCredentialUpsertion(args.name, mechanism, args.new_password)
    altered = await admin.alter_user_scram_credentials([change])
    return report("user", altered.errors())


async def _delete(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    from aiokafka_lite.admin import ScramMechanism, UserScramCredentialDeletion

    if not await confirmed(args, [f"delete the {args.mechanism} credential of user {args.name}"]):
        return OK
    mechanism = ScramMechanism[args.mechanism.replace("-", "_")]
    altered = await admin.alter_user_scram_credentials(
        [UserScramCredentialDeletion(args.name, mechanism)]
    )
    return report("user", altered.errors())
