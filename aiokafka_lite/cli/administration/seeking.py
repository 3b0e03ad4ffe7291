"""`group seek`: moves the committed offsets of a group that has no active members.

The broker checks again: it refuses the commit if a member joined after the check in this module.
"""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path

from aiokafka_lite.cli.administration.confirmation import confirmed
from aiokafka_lite.cli.administration.group_members import describe
from aiokafka_lite.cli.administration.topic_partitions import partitions_named
from aiokafka_lite.cli.connection.lookup import Lookup
from aiokafka_lite.cli.failures import OK, CommandError, UsageError, complain
from aiokafka_lite.cli.offsets.offset_grammar import parse_offset
from aiokafka_lite.cli.offsets.resolve import EARLIEST, LATEST, resolve
from aiokafka_lite.cli.streams.input import read_text
from aiokafka_lite.group.offsets.store import OffsetStore
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["seek"]

Offsets = dict[TopicPartition, int]


async def seek(lookup: Lookup, args: argparse.Namespace) -> int:
    """Export, preview and move the offsets, as the arguments of `group seek` say.

    Raises:
        UsageError: The arguments contradict each other, or there is no terminal to confirm at.
        CommandError: The group is active, or there is nothing to move.
    """
    ways = [each for each in (args.to, args.to_group, args.to_file) if each is not None]
    if len(ways) > 1 or not (ways or args.export):
        raise UsageError("write one of --to, --to-group and --to-file, or --export")
    store = OffsetStore(lookup.cluster, args.group)
    before = await _committed(lookup, args.group)
    if args.export:
        _export(args.export, before)
    if not ways:
        return OK
    chosen = await _chosen(lookup, args, before)
    after = await _wanted(lookup, args, chosen)
    moved = {tp: offset for tp, offset in sorted(after.items()) if before.get(tp) != offset}
    if not moved:
        complain("group", f"group {args.group}: every offset is there already")
        return OK
    await _refuse_active(lookup, args.group)
    plan = [
        f"{args.group}: {tp.topic}/{tp.partition} {before.get(tp, 'none')} -> {offset}"
        for tp, offset in moved.items()
    ]
    if not await confirmed(args, plan):
        return OK
    commit = {tp: OffsetAndMetadata(offset, "") for tp, offset in moved.items()}
    committing = store.begin_commit(commit, lookup.deadline(), missing_topics_may_come=False)
    await committing.complete()
    return OK


async def _committed(lookup: Lookup, group: str) -> Offsets:
    store = OffsetStore(lookup.cluster, group)
    found = await store.fetch(None, require_stable=True, deadline=lookup.deadline())
    return {tp: each.offset for tp, each in found.items()}


async def _chosen(
    lookup: Lookup, args: argparse.Namespace, before: Offsets
) -> list[TopicPartition]:
    """Return the partitions to move: the committed ones, or those of --topic T[:0,1]."""
    if not args.topics:
        return sorted(before)
    chosen: list[TopicPartition] = []
    for text in args.topics:
        found = await partitions_named(lookup, [text])
        new = [tp for tp in found if tp not in before]
        if new and not args.new_topics:
            raise CommandError(
                f"group {args.group} has no offset of {new[0].topic}/{new[0].partition}:"
                " add --new-topics to commit one"
            )
        chosen += found
    return list(dict.fromkeys(chosen))


async def _wanted(
    lookup: Lookup, args: argparse.Namespace, chosen: list[TopicPartition]
) -> Offsets:
    if args.to is not None:
        offset = parse_offset(args.to)
        if offset.end is not None:
            raise UsageError(f"--to {args.to}: write one offset or time, not a range")
        if not chosen:
            raise CommandError(
                f"group {args.group} has no committed offsets: name topics with --topic and"
                " --new-topics"
            )
        return {tp: each.start for tp, each in (await resolve(lookup, chosen, offset)).items()}
    if args.to_group is not None:
        wanted = await _committed(lookup, args.to_group)
        if not wanted:
            raise CommandError(f"group {args.to_group} has no committed offsets")
    else:
        wanted = await _import(args.to_file)
    if args.topics or not args.new_topics:
        wanted = _only_of(args, wanted, chosen)
    await _check_range(lookup, wanted)
    return wanted


def _only_of(args: argparse.Namespace, offsets: Offsets, chosen: list[TopicPartition]) -> Offsets:
    """Return the offsets of these partitions, and print which others would be new to the group.

    Raises:
        CommandError: None is left.
    """
    kept = {tp: offset for tp, offset in offsets.items() if tp in chosen}
    others = sorted(offsets.keys() - kept.keys())
    if args.topics:
        if not kept:
            raise CommandError(f"no offset of {' '.join(args.topics)} to move to")
    elif others:
        missing = (
            f"group {args.group} has no offset of {others[0].topic}/{others[0].partition}"
            + (f" and {len(others) - 1} more" if len(others) > 1 else "")
            + ": add --new-topics to commit there, too"
        )
        if not kept:
            raise CommandError(missing)
        complain("group", missing)
    return kept


async def _check_range(lookup: Lookup, wanted: Offsets) -> None:
    """Refuse offsets that their partition does not have."""
    if not wanted:
        return
    known = await lookup.partitions(sorted({tp.topic for tp in wanted}))
    for tp in wanted:
        if tp.partition not in known[tp.topic]:
            raise CommandError(f"topic {tp.topic!r} has no partition {tp.partition}")
    first = await lookup.offsets(dict.fromkeys(wanted, EARLIEST))
    last = await lookup.offsets(dict.fromkeys(wanted, LATEST))
    for tp, offset in wanted.items():
        if not first[tp] <= offset <= last[tp]:
            raise CommandError(
                f"{tp.topic}/{tp.partition} has the offsets {first[tp]} to {last[tp]}, not {offset}"
            )


def _export(path: str, offsets: Offsets) -> None:
    """Write TOPIC,PARTITION,OFFSET lines, which Kafka's own tool can also read."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(
        (tp.topic, tp.partition, offset) for tp, offset in sorted(offsets.items())
    )
    if path == "-":
        try:
            print(out.getvalue(), end="", flush=True)  # before anything is moved
        except BrokenPipeError:
            raise CommandError("--export -: the reader of standard output has exited") from None
    else:
        Path(path).write_text(out.getvalue())


async def _import(path: str) -> Offsets:
    found: Offsets = {}
    for number, line in enumerate(csv.reader(io.StringIO(await read_text(path))), 1):
        if not line:
            continue
        if len(line) != 3 or not (line[1].isdecimal() and line[2].isdecimal()):
            raise UsageError(f"{path}, line {number}: write TOPIC,PARTITION,OFFSET")
        found[TopicPartition(line[0], int(line[1]))] = int(line[2])
    return found


async def _refuse_active(lookup: Lookup, group: str) -> None:
    found = await describe(lookup, group)
    if found.is_active:
        names = ", ".join(f"{each.client_id}@{each.host}" for each in found.members)
        raise CommandError(
            f"group {group} is active ({found.state}): stop its members first"
            f" ({names or 'no member is listed'})"
        )
