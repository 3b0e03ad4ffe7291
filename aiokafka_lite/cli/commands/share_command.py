"""`share list|describe|lag|seek|delete|delete-offsets`: administers share groups (KIP-932)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite.cli.administration.actions import Actions, report, run_action, run_lookup
from aiokafka_lite.cli.administration.confirmation import add_confirmation_flags, confirmed
from aiokafka_lite.cli.administration.group_flags import TARGET, add_topic_flag
from aiokafka_lite.cli.administration.output import Output
from aiokafka_lite.cli.failures import OK, CommandError, UsageError, complain

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient
    from aiokafka_lite.admin.groups.share_groups import ShareGroupOffset
    from aiokafka_lite.cli.connection.lookup import Lookup
    from aiokafka_lite.structs import TopicPartition

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite share list
  aiokafka-lite share describe workers --members
  aiokafka-lite share lag workers
  aiokafka-lite share lag --total         one line per group, all share groups
  aiokafka-lite share seek workers --to start --dry-run
  aiokafka-lite share seek workers --to @-1h --topic jobs:0,1
  aiokafka-lite share delete-offsets workers --topic jobs
  aiokafka-lite share delete workers

read as a member:
  aiokafka-lite consume jobs --share-group workers
settings of a group, such as where it begins when it is new, its locks and its limit of deliveries:
  aiokafka-lite config set group workers share.auto.offset.reset=earliest
  aiokafka-lite config get group workers
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `share`."""
    actions = Actions(parser)
    listed = actions.add("list", "list share groups", _list)
    listed.add_argument(
        "--state",
        metavar="STATE",
        dest="states",
        action="append",
        default=[],
        help="only groups in this state: Stable, Empty or Dead",
    )
    described = actions.add("describe", "print the state of share groups, and their members", _show)
    described.add_argument("groups", metavar="GROUP", nargs="+", help="the share groups")
    described.add_argument("-m", "--members", action="store_true", help="one line per member")
    purpose = "print where share groups are in each partition, and how many records are left"
    lag = actions.add("lag", purpose, _lag)
    lag.add_argument("groups", metavar="GROUP", nargs="*", help="the share groups; default: all")
    lag.add_argument("--total", action="store_true", help="one line per group")
    purpose = "move a share group without members, which delivers records from there on"
    sought = actions.add("seek", purpose, None, prints=False)
    sought.add_argument("group", metavar="GROUP", help="the share group to move")
    sought.add_argument("--to", metavar="OFFSET", required=True, help=TARGET)
    add_topic_flag(
        sought, "these partitions; may be repeated; default: all that the group has offsets of"
    )
    add_confirmation_flags(sought)
    deleted = actions.add("delete", "delete share groups with their offsets", _delete, prints=False)
    deleted.add_argument("groups", metavar="GROUP", nargs="+", help="the share groups to delete")
    add_confirmation_flags(deleted)
    purpose = "delete the offsets of topics from a share group without members"
    forgotten = actions.add("delete-offsets", purpose, _delete_offsets, prints=False)
    forgotten.add_argument("group", metavar="GROUP", help="the share group")
    add_topic_flag(forgotten, "the topic; may be repeated", with_partitions=False, required=True)
    add_confirmation_flags(forgotten)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    if args.action == "seek":
        return run_lookup("share", args, _seek)
    return run_action("share", args)


async def _list(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    found = await admin.list_groups(states=args.states, types=["share"])
    rows: list[dict[str, Any]] = [
        {"group": each.group_id, "state": each.state}
        for each in sorted(found.valid(), key=lambda group: group.group_id)
    ]
    Output(args).rows(["group", "state"], rows)
    return report("share", found.errors())


async def _show(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    found = await admin.describe_share_groups(dict.fromkeys(args.groups))
    groups = found.valid().values()
    output = Output(args)
    if args.members:
        members = [
            {
                "group": group.group_id,
                "client_id": member.client_id,
                "host": _host(member.host),
                "partitions": [f"{tp.topic}/{tp.partition}" for tp in sorted(member.assignment)],
                "member_id": member.member_id,
                "rack": member.rack_id,
                "epoch": member.member_epoch,
            }
            for group in groups
            for member in group.members
        ]
        columns = ["group", "client_id", "host", "partitions"]
        output.rows(columns, members, ["member_id", "rack", "epoch"])
    else:
        rows: list[dict[str, Any]] = [
            {
                "group": group.group_id,
                "state": group.state,
                "members": len(group.members),
                "assignor": group.assignor,
                "epoch": group.group_epoch,
                "coordinator": group.coordinator_id,
            }
            for group in groups
        ]
        columns = ["group", "state", "members", "assignor"]
        output.rows(columns, rows, ["epoch", "coordinator"])
    return report("share", found.errors())


async def _lag(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    from aiokafka_lite.admin.core.results import Results

    if args.groups:
        # Groups that do not exist have no offsets, but also no error.
        described = await admin.describe_share_groups(dict.fromkeys(args.groups))
        names, status = sorted(described.valid()), report("share", described.errors())
    else:
        listed = await admin.list_groups(types=["share"])
        names = sorted(each.group_id for each in listed.valid())
        status = report("share", listed.errors())
    rows: list[dict[str, Any]] = []
    groups = await admin.list_share_group_offsets(names) if names else Results({})
    status = report("share", groups.errors()) or status
    for name, offsets in sorted(groups.valid().items()):
        status = report("share", offsets.errors()) or status
        partitions = {tp: each for tp, each in sorted(offsets.valid().items()) if each is not None}
        rows += [_total(name, partitions)] if args.total else _partitions(name, partitions)
    if args.total:
        Output(args).rows(["group", "partitions", "lag"], rows)
    else:
        Output(args).rows(["group", "topic", "partition", "start", "lag"], rows, ["leader_epoch"])
    return status


def _total(group: str, partitions: dict[TopicPartition, ShareGroupOffset]) -> dict[str, Any]:
    lags = [each.lag for each in partitions.values()]
    known = [lag for lag in lags if lag is not None]
    total = sum(known) if len(known) == len(lags) else None
    return {"group": group, "partitions": len(partitions), "lag": total}


def _partitions(
    group: str, partitions: dict[TopicPartition, ShareGroupOffset]
) -> list[dict[str, Any]]:
    return [
        {
            "group": group,
            "topic": tp.topic,
            "partition": tp.partition,
            "start": each.start_offset,
            "lag": each.lag,
            "leader_epoch": each.leader_epoch,
        }
        for tp, each in partitions.items()
    ]


async def _seek(lookup: Lookup, args: argparse.Namespace) -> int:
    from aiokafka_lite.cli.administration.topic_partitions import partitions_named
    from aiokafka_lite.cli.offsets.offset_grammar import parse_offset
    from aiokafka_lite.cli.offsets.resolve import resolve

    wanted = parse_offset(args.to)
    if wanted.end is not None:
        raise UsageError(f"--to {args.to}: write one offset or time, not a range")
    admin = lookup.admin()
    before = await _starts(admin, args.group)
    chosen = await partitions_named(lookup, args.topics) if args.topics else sorted(before)
    if not chosen:
        raise CommandError(
            f"share group {args.group} has no offsets: name topics with --topic to begin there"
        )
    after = await resolve(lookup, chosen, wanted)
    moved = {tp: each.start for tp, each in after.items() if before.get(tp) != each.start}
    if not moved:
        complain("share", f"share group {args.group}: every offset is there already")
        return OK
    await _refuse_active(admin, [args.group])
    plan = [
        f"{args.group}: {tp.topic}/{tp.partition} {before.get(tp, 'none')} -> {offset}"
        for tp, offset in sorted(moved.items())
    ]
    if not await confirmed(args, plan):
        return OK
    return report("share", (await admin.alter_share_group_offsets(args.group, moved)).errors())


async def _delete(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    names = list(dict.fromkeys(args.groups))
    await _refuse_active(admin, names)
    plan = [
        f"delete share group {name} with the offsets of {len(await _starts(admin, name))}"
        " partitions"
        for name in names
    ]
    if not await confirmed(args, plan):
        return OK
    return report("share", (await admin.delete_share_groups(names)).errors())


async def _delete_offsets(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    topics = list(dict.fromkeys(args.topics))
    before = await _starts(admin, args.group)
    missing = [topic for topic in topics if topic not in {tp.topic for tp in before}]
    if missing:
        raise CommandError(f"share group {args.group} has no offset of {missing[0]}")
    await _refuse_active(admin, [args.group])
    plan = [
        f"{args.group}: delete the offset of {tp.topic}/{tp.partition} ({offset})"
        for tp, offset in sorted(before.items())
        if tp.topic in topics
    ]
    if not await confirmed(args, plan):
        return OK
    return report("share", (await admin.delete_share_group_offsets(args.group, topics)).errors())


async def _starts(admin: AIOKafkaAdminClient, group: str) -> dict[TopicPartition, int]:
    offsets = (await admin.list_share_group_offsets([group])).value(group).raise_for_errors()
    return {tp: each.start_offset for tp, each in offsets.items() if each is not None}


async def _refuse_active(admin: AIOKafkaAdminClient, groups: list[str]) -> None:
    """Refuse groups with members; a group that does not exist has none.

    The broker checks again: it also refuses if a member joins after this check.
    """
    from aiokafka_lite.errors import GroupIdNotFound

    described = await admin.describe_share_groups(groups)
    for error in described.errors().values():
        if not isinstance(error, GroupIdNotFound):
            raise error
    for name, group in described.valid().items():
        if group.members:
            members = ", ".join(f"{each.client_id}@{_host(each.host)}" for each in group.members)
            raise CommandError(f"share group {name} is active: stop its members first ({members})")


def _host(host: str) -> str:
    return host.lstrip("/")
