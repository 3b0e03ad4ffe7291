"""`group list|lag`: lists groups, and how far they are behind."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite.cli.administration.actions import Actions, report, run_action
from aiokafka_lite.cli.administration.output import Output
from aiokafka_lite.cli.failures import OK

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite group list
  aiokafka-lite group list --state Empty
  aiokafka-lite group lag kitchen
  aiokafka-lite group lag --total         one line a group, all groups
  aiokafka-lite group lag kitchen -w      again every two seconds
"""

LOOK_EVERY: Final = 2.0
"""Seconds between two looks of `lag -w`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `group`."""
    actions = Actions(parser)
    listed = actions.add("list", "list groups", _list)
    listed.add_argument("--type", dest="types", action="append", default=[], help="of this type")
    listed.add_argument("--state", dest="states", action="append", default=[], help="in this state")
    lag = actions.add("lag", "print how many records groups are behind", _lag)
    lag.add_argument("groups", metavar="GROUP", nargs="*", help="default: all")
    lag.add_argument("--total", action="store_true", help="one line a group")
    lag.add_argument("-w", "--watch", action="store_true", help="again every two seconds")


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    return run_action("group", args)


async def _list(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    found = await admin.list_groups(states=args.states, types=args.types)
    rows: list[dict[str, Any]] = [
        {
            "group": each.group_id,
            "state": each.state,
            "type": each.type,
            "protocol_type": each.protocol_type,
        }
        for each in sorted(found.valid(), key=lambda group: group.group_id)
    ]
    Output(args).rows(["group", "state", "type"], rows, ["protocol_type"])
    return report("group", found.errors())


async def _lag(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    output = Output(args)
    while True:
        status = await _print_lag(admin, args, output)
        if not args.watch:
            return status
        await asyncio.sleep(LOOK_EVERY)


async def _print_lag(admin: AIOKafkaAdminClient, args: argparse.Namespace, output: Output) -> int:
    names = args.groups
    if not names:
        names = sorted(each.group_id for each in (await admin.list_groups()).valid())
    rows: list[dict[str, Any]] = []
    status = OK
    for name in names:
        found = await admin.lag(name)
        status = report("group", found.errors()) or status
        partitions = sorted(found.valid().items())
        if args.total:
            total = sum(each.lag for _, each in partitions)
            rows.append({"group": name, "partitions": len(partitions), "lag": total})
            continue
        rows += [
            {
                "group": name,
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": each.committed,
                "start": each.log_start,
                "end": each.log_end,
                "lag": each.lag,
            }
            for tp, each in partitions
        ]
    if args.total:
        output.rows(["group", "partitions", "lag"], rows)
    else:
        output.rows(["group", "topic", "partition", "committed", "end", "lag"], rows, ["start"])
    return status
