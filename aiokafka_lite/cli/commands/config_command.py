"""`config get|set topic|broker|group|client-metrics NAME`: reads and changes configurations."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite.cli.administration.actions import Actions, pairs, report, run_action
from aiokafka_lite.cli.administration.confirmation import add_confirmation_flags, confirmed
from aiokafka_lite.cli.administration.output import Output
from aiokafka_lite.cli.connection.profiles import SECRET
from aiokafka_lite.cli.failures import OK, UsageError

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite config get topic orders
  aiokafka-lite config get broker 1 --changed
  aiokafka-lite config set topic orders retention.ms=86400000
  aiokafka-lite config set broker default log.cleaner.threads=2 --delete num.io.threads
"""

_TYPES: Final = ("topic", "broker", "group", "client-metrics")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `config`."""
    actions = Actions(parser)
    got = actions.add("get", "print configurations", _get)
    _resource(got)
    got.add_argument("names", metavar="CONFIG", nargs="*", help="print only these configurations")
    got.add_argument("--changed", action="store_true", help="only those that are set explicitly")
    changed = actions.add("set", "change single configurations", _set, prints=False)
    _resource(changed)
    changed.add_argument("values", metavar="CONFIG=VALUE", nargs="*", help="new values")
    changed.add_argument(
        "--delete",
        metavar="CONFIG",
        action="append",
        default=[],
        help="remove the value, so that the default applies; may be repeated",
    )
    add_confirmation_flags(changed)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    return run_action("config", args)


def _resource(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "type", metavar="TYPE", choices=_TYPES, help=f"what is configured: {', '.join(_TYPES)}"
    )
    parser.add_argument(
        "name", metavar="NAME", help="the topic, the broker's id or `default`, the group, ..."
    )


def _named(args: argparse.Namespace) -> Any:
    from aiokafka_lite.admin import ConfigResource, ConfigResourceType

    name = "" if (args.type, args.name) == ("broker", "default") else args.name
    return ConfigResource(ConfigResourceType[args.type.upper().replace("-", "_")], name)


async def _get(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    resource = _named(args)
    found = await admin.describe_configs([resource], typed=True)
    rows = [
        {
            "config": entry.name,
            "value": SECRET if entry.sensitive else entry.value,
            "source": entry.source.name,
            "read_only": entry.read_only,
            "type": entry.type.name,
        }
        for config in found.valid().values()
        for entry in sorted(config.values())
        if (not args.names or entry.name in args.names) and not (args.changed and entry.is_default)
    ]
    missing = set(args.names) - {str(row["config"]) for row in rows} if found.valid() else set()
    if missing and not args.changed:
        raise UsageError(f"{args.type} {args.name} has no configuration {min(missing)}")
    Output(args).rows(["config", "value", "source"], rows, ["read_only", "type"])
    return report("config", found.errors())


async def _set(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    from aiokafka_lite.admin import AlterConfigOp

    changes = [AlterConfigOp.set(*pair) for pair in pairs("", args.values).items()]
    changes += [AlterConfigOp.delete(name) for name in args.delete]
    if not changes:
        raise UsageError("nothing to change: write CONFIG=VALUE, or --delete CONFIG")
    resource = _named(args)
    before = (await admin.describe_configs([resource], typed=True)).raise_for_errors()[resource]
    plan = []
    for change in changes:
        entry = before.get(change.name)
        secret = entry is not None and entry.sensitive
        value = None if entry is None else entry.value
        old = SECRET if secret else "none" if value is None else value
        new = SECRET if secret else change.value
        if change.value is None:
            new = "the default"
        plan.append(f"{args.type} {args.name}: {change.name} {old} -> {new or 'nothing'}")
    if not await confirmed(args, plan):
        return OK
    altered = await admin.incremental_alter_configs({resource: changes})
    return report("config", altered.errors())
