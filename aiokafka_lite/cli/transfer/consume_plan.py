"""The checked arguments of `consume`: what to read, and how to write it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka_lite.cli.connection.client_arguments import consumer_arguments, share_arguments
from aiokafka_lite.cli.connection.settings import Settings
from aiokafka_lite.cli.failures import UsageError
from aiokafka_lite.cli.formats.format_grammar import parse_format
from aiokafka_lite.cli.formats.writing import Record, RecordWriter, format_writer
from aiokafka_lite.cli.offsets.offset_grammar import Kind, OffsetRange, parse_offset

__all__ = ["METADATA_MS", "Plan"]

METADATA_MS: Final = 10_000
"""Maximum age of a reader's metadata, and so the maximum delay until an added partition or topic
is read."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The checked arguments of `consume`: what to read, and how to write it."""

    topics: Sequence[str]
    regex: bool
    partitions: Sequence[int] | None
    offset: OffsetRange
    tail: int | None
    to_end: bool
    count: int | None
    idle: float | None
    write: RecordWriter
    keep: Callable[[Sequence[Record]], list[Record]] | None
    group: str | None
    commit: bool
    share_group: str | None
    ack: str
    committed: bool
    quiet: bool
    timeout: float
    arguments: dict[str, Any]

    @classmethod
    def of(cls, args: argparse.Namespace, settings: Settings) -> Plan:
        """Check the arguments.

        Raises:
            UsageError: An argument is invalid, or two contradict each other.
        """
        if settings.sources.get("group.id") == "-X":
            raise UsageError("-X group.id: use -g, or --share-group")
        offset = parse_offset("start" if args.offset is None else args.offset)
        if args.tail is not None and args.offset is not None:
            raise UsageError("--tail and -o cannot be combined")
        if args.share_group is not None:
            _check_share_group(args)
            arguments = share_arguments(settings) | {"group_id": args.share_group}
        elif args.ack is not None:
            raise UsageError("--ack needs --share-group")
        else:
            arguments = consumer_arguments(settings)
            _complete(arguments, args, offset)
        return cls(
            topics=args.topics,
            regex=args.regex,
            partitions=None if args.partitions is None else _partitions(args.partitions),
            offset=offset,
            tail=args.tail,
            to_end=args.exit,
            count=args.count,
            idle=args.idle,
            write=_writer(args),
            keep=_filter(args.grep),
            group=args.group,
            commit=not args.no_commit,
            share_group=args.share_group,
            ack=args.ack or "accept",
            committed=arguments.get("isolation_level") == "read_committed",
            quiet=args.quiet,
            timeout=settings.timeout,
            arguments=arguments,
        )


def _complete(arguments: dict[str, Any], args: argparse.Namespace, offset: OffsetRange) -> None:
    """Add the arguments of a consumer that depend on the flags."""
    if args.committed:
        arguments["isolation_level"] = "read_committed"
    arguments.setdefault("metadata_max_age_ms", METADATA_MS)
    arguments["auto_offset_reset"] = "earliest"
    if args.group is not None:
        _check_group(args, offset)
        arguments["group_id"] = args.group
        if offset.start.kind is Kind.END:
            arguments["auto_offset_reset"] = "latest"
    elif args.no_commit:
        raise UsageError("--no-commit needs a group")


def _check_share_group(args: argparse.Namespace) -> None:
    """Refuse options that a share group does not support: positions, and skipping records."""
    refused = {
        "-g": args.group is not None,
        "-p": args.partitions is not None,
        "-r": args.regex,
        "-e": args.exit,
        "--tail": args.tail is not None,
        "--no-commit": args.no_commit,
    }
    for flag, given in refused.items():
        if given:
            raise UsageError(f"{flag} and --share-group cannot be combined")
    group = args.share_group
    if args.offset is not None:
        raise UsageError(
            "-o and --share-group cannot be combined. To begin elsewhere use `aiokafka-lite share"
            f" seek {group}`, or for a new group `aiokafka-lite config set group {group}"
            " share.auto.offset.reset=earliest`"
        )
    if args.committed:
        raise UsageError(
            "the share group decides about --committed: use `aiokafka-lite config set group"
            f" {group} share.isolation.level=read_committed`"
        )
    if args.grep:
        raise UsageError(
            "--grep and --share-group cannot be combined: a record that it hides would be taken"
            " from the other members. Filter the output instead"
        )


def _check_group(args: argparse.Namespace, offset: OffsetRange) -> None:
    if args.partitions is not None:
        raise UsageError("-p and -g cannot be combined: the group assigns the partitions")
    if args.exit or args.tail is not None:
        raise UsageError("-e and --tail need a reader without a group; with -g use --idle or -n")
    start = offset.start
    anywhere = start.kind in (Kind.START, Kind.END, Kind.STORED) and not start.number
    if offset.end is not None or not anywhere:
        raise UsageError(
            "with -g, -o is `start` or `end`: where to begin without a committed offset. To move a"
            " group elsewhere use `aiokafka-lite group seek`"
        )


def _filter(texts: Sequence[str]) -> Callable[[Sequence[Record]], list[Record]] | None:
    if not texts:
        return None
    from aiokafka_lite.cli.formats.record_filters import parse_filters  # rarely used

    return parse_filters(texts)


def _partitions(text: str) -> list[int]:
    numbers = text.split(",")
    if not all(number.isdecimal() for number in numbers):
        raise UsageError(f"-p {text}: write partition numbers such as 0,1")
    return sorted({int(number) for number in numbers})


def _writer(args: argparse.Namespace) -> RecordWriter:
    if args.json:
        if args.format is not None:
            raise UsageError("-J and -f cannot be combined")
        from aiokafka_lite.cli.formats.json_lines import json_line_writer

        return json_line_writer(args.value, keys_only=args.keys_only)
    if args.format is not None:
        if args.value != "auto" or args.keys_only:
            raise UsageError("--value and --keys-only exclude -f: write %v{hex} or %k")
        return format_writer(parse_format(args.format))
    verb = "%k" if args.keys_only else "%v"
    modifiers = {"auto": "", "text": "", "json": "", "hex": "{hex}", "base64": "{base64}"}
    modifier = modifiers.get(args.value)
    if args.value.startswith("unpack:"):
        modifier = f"{{unpack[{args.value.removeprefix('unpack:')}]}}"
    if modifier is None:
        from aiokafka_lite.cli.formats.json_lines import value_writer

        value_writer(args.value)  # raises UsageError
        modifier = ""
    return format_writer(parse_format(verb + modifier + r"\n"))
