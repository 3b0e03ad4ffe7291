"""`reassign plan|apply|list|cancel`: moves replicas between brokers."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite.cli.administration.actions import Actions, report, run_action
from aiokafka_lite.cli.administration.confirmation import add_confirmation_flags, confirmed
from aiokafka_lite.cli.administration.output import Output
from aiokafka_lite.cli.failures import OK, CommandError, UsageError
from aiokafka_lite.cli.streams.input import read_text

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient
    from aiokafka_lite.structs import TopicPartition

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite reassign plan orders --to 1,2,3
  aiokafka-lite reassign plan orders --to 1,2,3 -o json > plan.json
  aiokafka-lite reassign apply --file plan.json --wait
  aiokafka-lite reassign apply orders --to 1,2,3 -r 2
  aiokafka-lite reassign list
  aiokafka-lite reassign cancel orders

A plan keeps replicas on their brokers where possible. `apply --file` takes the output of
`plan -o json`. An entry needs a topic, a partition and its replicas, the preferred leader first.
"""

SAMPLE_EVERY: Final = 1.0
"""Seconds between two samples of `apply --wait`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `reassign`."""
    actions = Actions(parser)
    planned = actions.add("plan", "print where the replicas of topics would go", _plan)
    _what(planned)
    applied = actions.add("apply", "move replicas, and change how many there are", _apply)
    _what(applied)
    applied.add_argument("--file", metavar="FILE", help="a plan; - is standard input")
    applied.add_argument("-w", "--wait", action="store_true", help="wait until it is completed")
    add_confirmation_flags(applied)
    listed = actions.add("list", "list the reassignments in progress", _list)
    listed.add_argument(
        "topics", metavar="TOPIC", nargs="*", help="list only those of these topics"
    )
    cancelled = actions.add("cancel", "cancel reassignments in progress", _cancel, prints=False)
    cancelled.add_argument("topics", metavar="TOPIC", nargs="*", help="the topics; default: all")
    add_confirmation_flags(cancelled)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    return run_action("reassign", args)


def _what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="the topics to move")
    parser.add_argument("--to", metavar="1,2,3", help="the brokers to use; default: all")
    parser.add_argument(
        "-r",
        "--replicas",
        metavar="N",
        type=int,
        help="copies of each partition; default: as many as now",
    )


async def _plan(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    if not args.topics:
        raise UsageError("name the topics to plan for")
    now, then = await _planned(admin, args)
    rows: list[dict[str, Any]] = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "now": list(now[tp]),
            "replicas": list(then[tp]),
            "moved": len(set(then[tp]) - set(now[tp])),
        }
        for tp in sorted(then)
    ]
    Output(args).rows(["topic", "partition", "now", "replicas", "moved"], rows)
    return OK


async def _apply(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    if bool(args.topics) == (args.file is not None):
        raise UsageError("name the topics to move, or a plan with --file")
    if args.file is not None and (args.to is not None or args.replicas is not None):
        raise UsageError("--file names the brokers: it cannot be combined with --to and --replicas")
    if args.file is not None:
        then = await _read_plan(args.file)
        now = await _replicas(admin, sorted({tp.topic for tp in then}))
        unknown = [tp for tp in then if tp not in now]
        if unknown:
            tp = unknown[0]
            raise CommandError(f"topic {tp.topic!r} has no partition {tp.partition}")
    else:
        now, then = await _planned(admin, args)
    changes = {tp: nodes for tp, nodes in sorted(then.items()) if nodes != now[tp]}
    if not changes:
        print("reassign: every replica is there already", file=sys.stderr)
        return OK
    plan = [
        f"{tp.topic}/{tp.partition}: {_nodes(now[tp])} -> {_nodes(nodes)}"
        for tp, nodes in changes.items()
    ]
    if not await confirmed(args, plan):
        return OK
    altered = await admin.alter_partition_reassignments(changes)
    status = report("reassign", altered.errors())
    if args.wait:
        await _wait(admin, [tp for tp in changes if tp not in altered.errors()])
    return status


async def _list(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    found = await admin.list_partition_reassignments()
    rows: list[dict[str, Any]] = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "replicas": list(each.replicas),
            "adding": list(each.adding_replicas),
            "removing": list(each.removing_replicas),
        }
        for tp, each in sorted(found.items())
        if not args.topics or tp.topic in args.topics
    ]
    Output(args).rows(["topic", "partition", "replicas", "adding", "removing"], rows)
    return OK


async def _cancel(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    found = await admin.list_partition_reassignments()
    chosen = {
        tp: each for tp, each in sorted(found.items()) if not args.topics or tp.topic in args.topics
    }
    if not chosen:
        print("reassign: no reassignment is in progress", file=sys.stderr)
        return OK
    plan = [
        f"{tp.topic}/{tp.partition}: cancel adding {_nodes(each.adding_replicas)},"
        f" removing {_nodes(each.removing_replicas)}"
        for tp, each in chosen.items()
    ]
    if not await confirmed(args, plan):
        return OK
    cancelled = await admin.alter_partition_reassignments(dict.fromkeys(chosen))
    return report("reassign", cancelled.errors())


_Placement = dict["TopicPartition", tuple[int, ...]]


async def _planned(
    admin: AIOKafkaAdminClient, args: argparse.Namespace
) -> tuple[_Placement, _Placement]:
    from aiokafka_lite.cli.administration.reassignment_plan import plan_reassignment

    brokers = (await admin.describe_cluster(typed=True)).brokers
    targets = sorted(brokers) if args.to is None else _broker_ids(args.to)
    missing = [node for node in targets if node not in brokers]
    if missing:
        known = _nodes(sorted(brokers))
        raise CommandError(f"--to {args.to}: the cluster has the brokers {known}")
    if args.replicas is not None and not 1 <= args.replicas <= len(targets):
        raise UsageError(f"-r {args.replicas}: there are {len(targets)} brokers to use")
    now = await _replicas(admin, args.topics)
    racks = {node_id: broker.rack for node_id, broker in brokers.items()}
    return now, plan_reassignment(now, targets, racks, args.replicas)


async def _replicas(admin: AIOKafkaAdminClient, topics: Sequence[str]) -> _Placement:
    from aiokafka_lite.structs import TopicPartition

    described = (await admin.describe_topics(topics, typed=True)).raise_for_errors()
    moving = await admin.list_partition_reassignments()
    found: _Placement = {}
    for topic in described.values():
        for each in topic.partitions.values():
            tp = TopicPartition(topic.name, each.partition)
            removing = moving[tp].removing_replicas if tp in moving else ()
            found[tp] = tuple(node for node in each.replicas if node not in removing)
    return found


async def _wait(admin: AIOKafkaAdminClient, partitions: Sequence[TopicPartition]) -> None:
    """Wait until the reassignments are completed, and print on a terminal how many are not."""
    before = -1
    while True:
        moving = len((await admin.list_partition_reassignments()).keys() & set(partitions))
        if moving != before and sys.stderr.isatty():
            print(f"reassign: {moving} partitions in progress", file=sys.stderr)
        before = moving
        if not moving:
            return
        await asyncio.sleep(SAMPLE_EVERY)


async def _read_plan(path: str) -> _Placement:
    from aiokafka_lite.structs import TopicPartition

    text = await read_text(path)
    try:
        entries = json.loads(text)
        plan = {
            TopicPartition(str(each["topic"]), each["partition"]): tuple(each["replicas"])
            for each in entries
        }
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"--file {path} is not a plan of `reassign plan -o json`: {error}"
        ) from None
    for tp, nodes in plan.items():
        numbers = (tp.partition, *nodes)
        if not tp.topic or not all(type(each) is int and each >= 0 for each in numbers):
            raise UsageError(f"--file {path}: the entry of {tp.topic}/{tp.partition} is invalid")
        if not nodes or len(set(nodes)) < len(nodes):
            raise UsageError(
                f"--file {path}: {tp.topic}/{tp.partition} needs replicas on different brokers"
            )
    return plan


def _broker_ids(text: str) -> list[int]:
    numbers = text.split(",")
    if not all(number.isdecimal() for number in numbers):
        raise UsageError(f"--to {text}: write broker ids such as 1,2,3")
    return sorted({int(number) for number in numbers})


def _nodes(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes)) or "none"
