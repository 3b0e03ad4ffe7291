"""`quota list|set`: administers the quotas of users, client ids and addresses."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite.cli.administration.actions import Actions, pairs, report, run_action
from aiokafka_lite.cli.administration.confirmation import add_confirmation_flags, confirmed
from aiokafka_lite.cli.administration.output import Output
from aiokafka_lite.cli.failures import OK, UsageError

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite quota list
  aiokafka-lite quota set --for-user alice producer_byte_rate=1000000
  aiokafka-lite quota set --for-user default --client-id import consumer_byte_rate=500000
  aiokafka-lite quota set --for-user alice --delete producer_byte_rate
"""

_TYPES: Final = ("user", "client-id", "ip")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `quota`."""
    actions = Actions(parser)
    actions.add("list", "list quotas", _list)
    changed = actions.add("set", "set or remove quotas", _set, prints=False)
    changed.add_argument(
        "values",
        metavar="QUOTA=NUMBER",
        nargs="*",
        help="producer_byte_rate, consumer_byte_rate, request_percentage, .. and its limit",
    )
    # --user is the connection's flag: the user of this command, not that of the quota.
    changed.add_argument("--for-user", metavar="NAME", help="limit this user, or `default`")
    changed.add_argument("--client-id", metavar="ID", help="limit this client id, or `default`")
    changed.add_argument("--ip", metavar="ADDRESS", help="limit this address, or `default`")
    changed.add_argument(
        "--delete",
        metavar="QUOTA",
        action="append",
        default=[],
        help="remove this limit; may be repeated",
    )
    add_confirmation_flags(changed)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    return run_action("quota", args)


async def _list(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    found = await admin.describe_client_quotas()
    rows: list[dict[str, Any]] = [
        {
            **{kind: _shown(entity.entries, kind) for kind in _TYPES},
            "quota": name,
            "value": value,
        }
        for entity, values in found.items()
        for name, value in sorted(values.items())
    ]
    rows.sort(key=lambda row: [str(row[key]) for key in row])
    Output(args).rows([*_TYPES, "quota", "value"], rows)
    return OK


def _shown(entries: Any, kind: str) -> str | None:
    if kind not in entries:
        return None
    return "default" if entries[kind] is None else str(entries[kind])


async def _set(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    from aiokafka_lite.admin import ClientQuotaEntity

    named = {"user": args.for_user, "client-id": args.client_id, "ip": args.ip}
    entries = {
        kind: None if name == "default" else name
        for kind, name in named.items()
        if name is not None
    }
    if not entries:
        raise UsageError("say whose quota: --for-user, --client-id or --ip")
    values: dict[str, float | None] = dict.fromkeys(args.delete)
    for name, text in pairs("quota", args.values).items():
        try:
            values[name] = float(text)
        except ValueError:
            raise UsageError(f"{name}={text}: the value is a number") from None
    if not values:
        raise UsageError("nothing to change: write QUOTA=NUMBER, or --delete QUOTA")
    entity = ClientQuotaEntity(entries)
    before = (await admin.describe_client_quotas()).get(entity, {})
    whose = " ".join(f"{kind} {name or 'default'}" for kind, name in entries.items())
    plan = [
        f"{whose}: {name} {before.get(name, 'none')} -> {'none' if value is None else value}"
        for name, value in values.items()
    ]
    if not await confirmed(args, plan):
        return OK
    altered = await admin.alter_client_quotas({entity: values})
    return report("quota", altered.errors())
