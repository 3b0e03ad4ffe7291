"""`txn list|describe|abort`: shows transactions, and ends one that hangs."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite.cli.administration.actions import Actions, report, run_action
from aiokafka_lite.cli.administration.confirmation import add_confirmation_flags, confirmed
from aiokafka_lite.cli.administration.output import Output
from aiokafka_lite.cli.failures import OK

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite txn list --state Ongoing
  aiokafka-lite txn describe my-transactional-id
  aiokafka-lite txn abort my-transactional-id      also fences its producer
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `txn`."""
    actions = Actions(parser)
    listed = actions.add("list", "list transactional ids with their states", _list)
    listed.add_argument("--state", dest="states", action="append", default=[], help="in this state")
    described = actions.add("describe", "describe transactions", _describe)
    described.add_argument("ids", metavar="ID", nargs="+", help="the transactional ids")
    aborted = actions.add(
        "abort", "abort the open transaction of an id, and fence its producer", _abort, prints=False
    )
    aborted.add_argument("id", metavar="ID", help="the transactional id")
    add_confirmation_flags(aborted)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    return run_action("txn", args)


async def _list(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    found = await admin.list_transactions(states=args.states)
    rows: list[dict[str, Any]] = [
        {"id": each.transactional_id, "state": each.state, "producer_id": each.producer_id}
        for each in sorted(found.valid(), key=lambda each: each.transactional_id)
    ]
    Output(args).rows(["id", "state", "producer_id"], rows)
    return report("txn", found.errors())


async def _describe(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    found = await admin.describe_transactions(args.ids)
    rows: list[dict[str, Any]] = [
        {
            "id": each.transactional_id,
            "state": each.state,
            "open_ms": _open_for(each.start_time_ms),
            "timeout_ms": each.timeout_ms,
            "partitions": [f"{tp.topic}/{tp.partition}" for tp in sorted(each.partitions)],
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator": each.coordinator_id,
        }
        for each in found.valid().values()
    ]
    columns = ["id", "state", "open_ms", "timeout_ms", "partitions"]
    Output(args).rows(columns, rows, ["producer_id", "producer_epoch", "coordinator"])
    return report("txn", found.errors())


def _open_for(start_time_ms: int | None) -> int | None:
    return None if start_time_ms is None else max(0, int(time.time() * 1000) - start_time_ms)


async def _abort(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    found = (await admin.describe_transactions([args.id])).raise_for_errors()[args.id]
    partitions = ", ".join(f"{tp.topic}/{tp.partition}" for tp in sorted(found.partitions))
    plan = f"abort the transaction of {args.id} ({found.state}; {partitions or 'no partitions'})"
    if await confirmed(args, [plan]):
        await admin.force_terminate_transaction(args.id)
    return OK
