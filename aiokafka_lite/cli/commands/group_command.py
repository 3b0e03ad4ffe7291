"""`group list|describe|lag|seek|delete|delete-offsets`: administers groups."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite.cli.administration.actions import Actions, report, run_action, run_lookup
from aiokafka_lite.cli.administration.confirmation import add_confirmation_flags, confirmed
from aiokafka_lite.cli.administration.group_flags import TARGET, add_topic_flag
from aiokafka_lite.cli.administration.output import Output
from aiokafka_lite.cli.failures import OK, CommandError

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient
    from aiokafka_lite.cli.connection.lookup import Lookup

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite group list
  aiokafka-lite group list --state Empty
  aiokafka-lite group describe kitchen --members
  aiokafka-lite group lag kitchen
  aiokafka-lite group lag --total         one line per group, all groups
  aiokafka-lite group lag kitchen -w      again every two seconds
  aiokafka-lite group seek kitchen --to @-1h --topic orders
  aiokafka-lite group seek kitchen --export offsets.csv
  aiokafka-lite group seek kitchen --to-file offsets.csv
  aiokafka-lite group delete-offsets kitchen --topic orders
  aiokafka-lite group delete kitchen
"""

SAMPLE_EVERY: Final = 2.0
"""Seconds between two samples of `lag -w`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `group`."""
    actions = Actions(parser)
    listed = actions.add("list", "list groups", _list)
    listed.add_argument(
        "--type",
        metavar="TYPE",
        dest="types",
        action="append",
        default=[],
        help="only groups of this type: classic, consumer, share or streams",
    )
    listed.add_argument(
        "--state",
        metavar="STATE",
        dest="states",
        action="append",
        default=[],
        help="only groups in this state, such as Stable or Empty",
    )
    lag = actions.add("lag", "print how many records groups are behind", _lag)
    lag.add_argument("groups", metavar="GROUP", nargs="*", help="the groups; default: all")
    lag.add_argument("--total", action="store_true", help="one line per group")
    lag.add_argument("-w", "--watch", action="store_true", help="again every two seconds")
    described = actions.add("describe", "print the state of groups, and their members", None)
    described.add_argument("groups", metavar="GROUP", nargs="+", help="the groups")
    described.add_argument("-m", "--members", action="store_true", help="one line per member")
    deleted = actions.add("delete", "delete groups with their offsets", None, prints=False)
    deleted.add_argument("groups", metavar="GROUP", nargs="+", help="the groups to delete")
    add_confirmation_flags(deleted)
    purpose = "delete committed offsets of a group that no longer reads their topic"
    forgotten = actions.add("delete-offsets", purpose, _delete_offsets, prints=False)
    forgotten.add_argument("group", metavar="GROUP", help="the group")
    add_topic_flag(forgotten, "the partitions; may be repeated", required=True)
    add_confirmation_flags(forgotten)
    purpose = "move the committed offsets of a group without active members"
    sought = actions.add("seek", purpose, None, prints=False)
    sought.add_argument("group", metavar="GROUP", help="the group to move")
    sought.add_argument("--to", metavar="OFFSET", help=TARGET)
    sought.add_argument("--to-group", metavar="GROUP", help="take the offsets of another group")
    sought.add_argument(
        "--to-file", metavar="FILE", help="offsets from a file of --export; - is stdin"
    )
    add_topic_flag(sought, "move only these partitions; may be repeated")
    sought.add_argument(
        "--new-topics", action="store_true", help="also commit where the group has no offset yet"
    )
    sought.add_argument(
        "--export", metavar="FILE", help="write the present offsets to a file; - is stdout"
    )
    add_confirmation_flags(sought)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    works = {"describe": _describe, "seek": _seek, "delete": _delete}
    if args.action in works:
        return run_lookup("group", args, works[args.action])
    return run_action("group", args)


async def _seek(lookup: Lookup, args: argparse.Namespace) -> int:
    from aiokafka_lite.cli.administration.seeking import seek

    return await seek(lookup, args)


async def _describe(lookup: Lookup, args: argparse.Namespace) -> int:
    from aiokafka_lite.cli.administration.group_members import describe

    groups = [await describe(lookup, name) for name in dict.fromkeys(args.groups)]
    output = Output(args)
    if args.members:
        members = [
            {"group": group.group_id, **member._asdict()}
            for group in groups
            for member in group.members
        ]
        output.rows(["group", "client_id", "host", "member_id", "instance_id"], members)
    else:
        rows: list[dict[str, Any]] = [
            {
                "group": group.group_id,
                "type": group.type,
                "state": group.state,
                "members": len(group.members),
                "assignor": group.assignor,
            }
            for group in groups
        ]
        output.rows(["group", "type", "state", "members", "assignor"], rows)
    missing = {each.group_id: each for each in groups if each.state in ("", "Dead")}
    errors = {name: CommandError(f"group {name} does not exist") for name in missing}
    return report("group", errors)


async def _delete(lookup: Lookup, args: argparse.Namespace) -> int:
    admin = lookup.admin()
    names = list(dict.fromkeys(args.groups))
    offsets = await admin.list_consumer_groups_offsets(names)
    plan = [
        f"delete group {name} with the offsets of {len(offsets.value(name))} partitions"
        for name in names
    ]
    if not await confirmed(args, plan):
        return OK
    return report("group", (await admin.delete_consumer_groups(names)).errors())


async def _delete_offsets(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    from aiokafka_lite.cli.administration.topic_partitions import parse_topic_partitions

    wanted = parse_topic_partitions(args.topics)
    offsets = (await admin.list_consumer_groups_offsets([args.group])).value(args.group)
    present = {tp: each.offset for tp, each in offsets.valid().items() if each is not None}
    chosen = {
        tp: offset
        for tp, offset in sorted(present.items())
        if tp.topic in wanted and ((numbers := wanted[tp.topic]) is None or tp.partition in numbers)
    }
    if not chosen:
        raise CommandError(f"group {args.group} has no committed offset of {' '.join(args.topics)}")
    plan = [
        f"{args.group}: delete the offset of {tp.topic}/{tp.partition} ({offset})"
        for tp, offset in chosen.items()
    ]
    if not await confirmed(args, plan):
        return OK
    deleted = await admin.delete_consumer_group_offsets(args.group, chosen)
    return report("group", deleted.errors())


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
        sys.stdout.flush()  # of a pipe, the interpreter would collect many samples first
        await asyncio.sleep(SAMPLE_EVERY)


async def _print_lag(admin: AIOKafkaAdminClient, args: argparse.Namespace, output: Output) -> int:
    names, status = args.groups, OK
    if not names:
        listed = await admin.list_groups()
        names = sorted(each.group_id for each in listed.valid())
        status = report("group", listed.errors())
    rows: list[dict[str, Any]] = []
    for name in names:
        found = await admin.lag(name)
        status = report("group", found.errors()) or status
        partitions = sorted(found.valid().items())
        if args.groups and not found and await _is_missing(admin, name):
            status = report("group", {name: CommandError(f"consumer group {name} does not exist")})
            continue
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


async def _is_missing(admin: AIOKafkaAdminClient, group: str) -> bool:
    """True if a group does not exist: it then has no offsets and no lag, but also no error."""
    from aiokafka_lite.errors import GroupIdNotFound, IllegalArgumentError

    try:
        found = (await admin.describe_consumer_groups([group], typed=True)).value(group)
    except GroupIdNotFound:
        return True
    except IllegalArgumentError:  # its members are not consumers
        return False
    return found.state in ("", "Dead")
