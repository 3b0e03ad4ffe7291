"""`topic list|describe|create|delete|alter|copy|trim|offsets`: administers topics."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiokafka_lite.cli.administration.actions import Actions, pairs, report, run_action
from aiokafka_lite.cli.administration.confirmation import add_confirmation_flags, confirmed
from aiokafka_lite.cli.administration.output import Output
from aiokafka_lite.cli.failures import OK, CommandError, UsageError
from aiokafka_lite.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient
    from aiokafka_lite.admin.topics.description import PartitionDescription, TopicDescription
    from aiokafka_lite.errors import KafkaError
    from aiokafka_lite.structs import TopicPartition

__all__ = ["EXAMPLES", "add_arguments", "run"]

_K = TypeVar("_K")

EXAMPLES: Final = """
examples:
  aiokafka-lite topic list
  aiokafka-lite topic create orders -p 6 -r 3 -c retention.ms=86400000
  aiokafka-lite topic describe orders --partitions
  aiokafka-lite topic alter orders --set cleanup.policy=compact --partitions 12
  aiokafka-lite topic offsets orders -o @-1h
  aiokafka-lite topic copy orders orders-test --create
  aiokafka-lite topic copy orders orders --profile production --to-profile staging -o @-1h
  aiokafka-lite topic trim orders -o @-7d
  aiokafka-lite topic delete orders
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `topic`."""
    actions = Actions(parser)
    listed = actions.add("list", "list topics", _list)
    listed.add_argument("topics", metavar="TOPIC", nargs="*", help="list only these topics")
    listed.add_argument("-i", "--internal", action="store_true", help="Kafka's own topics, too")
    _regex(listed)

    described = actions.add("describe", "describe topics", _describe)
    described.add_argument("topics", metavar="TOPIC", nargs="+", help="the topics to describe")
    _regex(described)
    described.add_argument("-p", "--partitions", action="store_true", help="one line per partition")
    described.add_argument(
        "-c", "--configs", action="store_true", help="one line per configuration"
    )
    described.add_argument(
        "--unhealthy",
        action="store_true",
        help="only partitions without a leader, or with replicas out of sync",
    )

    created = actions.add("create", "create topics", _create)
    created.add_argument("topics", metavar="TOPIC", nargs="+", help="names of the new topics")
    created.add_argument(
        "-p",
        "--partitions",
        metavar="N",
        type=int,
        default=-1,
        help="number of partitions; default: the broker's num.partitions",
    )
    created.add_argument(
        "-r",
        "--replicas",
        metavar="N",
        type=int,
        default=-1,
        help="copies of each partition; default: the broker's default.replication.factor",
    )
    created.add_argument(
        "-c",
        "--config",
        metavar="NAME=VALUE",
        dest="configs",
        action="append",
        default=[],
        help="a configuration of the topics, such as retention.ms=86400000; may be repeated",
    )
    created.add_argument(
        "--if-not-exists", action="store_true", help="ignore topics that already exist"
    )
    created.add_argument("--dry-run", action="store_true", help="only check whether it is possible")

    deleted = actions.add("delete", "delete topics with all their records", _delete, prints=False)
    deleted.add_argument("topics", metavar="TOPIC", nargs="+", help="the topics to delete")
    _regex(deleted)
    deleted.add_argument("--if-exists", action="store_true", help="ignore topics that do not exist")
    add_confirmation_flags(deleted)

    altered = actions.add("alter", "change configurations, add partitions", _alter, prints=False)
    altered.add_argument("topics", metavar="TOPIC", nargs="+", help="the topics to change")
    for flag, shape, purpose in (
        ("--set", "NAME=VALUE", "set a configuration"),
        ("--delete", "NAME", "remove a configuration, so that the default applies"),
        ("--append", "NAME=VALUE", "add to a configuration that is a list"),
        ("--subtract", "NAME=VALUE", "remove from a configuration that is a list"),
    ):
        altered.add_argument(flag, metavar=shape, action="append", default=[], help=purpose)
    altered.add_argument(
        "--partitions", metavar="N", type=int, help="increase the total number of partitions to N"
    )
    add_confirmation_flags(altered)

    purpose = "print the first and the last offset of partitions"
    offsets = actions.add("offsets", purpose, _offsets, takes_offset=True)
    offsets.add_argument("topics", metavar="TOPIC", nargs="+", help="the topics")
    offsets.add_argument(
        "-o",
        "--offset",
        metavar="OFFSET",
        help="also print this offset, such as @-1h: the first record of the last hour",
    )

    copied = actions.add("copy", "copy the records of a topic into another", None, prints=False)
    copied.add_argument("source", metavar="SOURCE", help="the topic to copy")
    copied.add_argument("target", metavar="TARGET", help="the topic that gets the records")
    copied.add_argument("--to", metavar="HOST:PORT,..", help="the cluster of TARGET")
    copied.add_argument("--to-profile", metavar="NAME", help="the cluster of TARGET, by profile")
    copied.add_argument(
        "-o", "--offset", metavar="OFFSET", help="where to begin, or a range; default: start"
    )
    copied.add_argument(
        "--by-key",
        action="store_true",
        help="let the keys choose the partitions, instead of keeping them",
    )
    copied.add_argument(
        "--create", action="store_true", help="create TARGET with as many partitions"
    )

    trimmed = actions.add("trim", "delete the records before an offset", _trim, prints=False)
    trimmed.add_argument("topic", metavar="TOPIC", help="the topic to trim")
    trimmed.add_argument(
        "-o",
        "--offset",
        metavar="OFFSET",
        required=True,
        help="the first offset to keep: 100, end, @-7d",
    )
    trimmed.add_argument("-p", "--partitions", metavar="0,1", help="only these partitions")
    add_confirmation_flags(trimmed)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    return _copy(args) if args.action == "copy" else run_action("topic", args)


def _regex(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-r", "--regex", action="store_true", help="TOPIC is a regular expression")


async def _list(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    names = sorted(await admin.list_topics(list_internal=args.internal))
    if args.topics:
        names = _matching(names, args.topics) if args.regex else _among(names, args.topics)
    described = await admin.describe_topics(names, typed=True) if names else {}
    rows = [_summary(each) for each in described.values() if not isinstance(each, Exception)]
    Output(args).rows(["topic", "partitions", "replicas"], rows, ["internal", "topic_id"])
    return report("topic", {n: e for n, e in described.items() if isinstance(e, Exception)})


async def _describe(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    names = await _chosen(admin, args)
    described = await admin.describe_topics(names, typed=True)
    topics = list(described.valid().values())
    if args.configs:
        return await _describe_configs(admin, args, [topic.name for topic in topics])
    output = Output(args)
    if args.partitions or args.unhealthy:
        rows = [
            _partition(topic, each)
            for topic in topics
            for each in topic.partitions.values()
            if not args.unhealthy or not _is_healthy(each)
        ]
        columns = ["topic", "partition", "leader", "replicas", "isr"]
        output.rows(columns, rows, ["leader_epoch", "offline_replicas", "error"])
    else:
        columns = ["topic", "partitions", "replicas", "unhealthy"]
        output.rows(columns, [_summary(topic) for topic in topics], ["internal", "topic_id"])
    return report("topic", described.errors())


async def _describe_configs(
    admin: AIOKafkaAdminClient, args: argparse.Namespace, names: Sequence[str]
) -> int:
    from aiokafka_lite.admin import ConfigResource, ConfigResourceType

    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    found = await admin.describe_configs(resources, typed=True)
    rows = [
        {
            "topic": resource.name,
            "config": entry.name,
            "value": entry.value,
            "source": entry.source.name,
        }
        for resource, config in found.valid().items()
        for entry in sorted(config.values())
    ]
    Output(args).rows(["topic", "config", "value", "source"], rows)
    return report("topic", found.errors())


async def _create(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    from aiokafka_lite.admin import NewTopic

    configs = pairs("-c", args.configs)
    topics = [
        NewTopic(name, args.partitions, args.replicas, topic_configs=configs)
        for name in args.topics
    ]
    created = await admin.create_topics(topics, validate_only=args.dry_run)
    rows = [
        {
            "topic": name,
            "partitions": each.num_partitions,
            "replicas": each.replication_factor,
            "created": not args.dry_run,
            "topic_id": None if each.topic_id is None else str(each.topic_id),
        }
        for name, each in created.valid().items()
    ]
    errors = created.errors()
    if args.if_not_exists:
        errors = _without(errors, TopicAlreadyExistsError)
    if rows or not errors:
        Output(args).rows(["topic", "partitions", "replicas", "created"], rows, ["topic_id"])
    return report("topic", errors)


async def _delete(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    names = await _chosen(admin, args)
    described = await admin.describe_topics(names, typed=True)
    ignored = (UnknownTopicOrPartitionError,) if args.if_exists else ()
    errors = _without(described.errors(), *ignored)
    found = described.valid().values()
    if found:
        ends, _ = await _known_ends(admin, found)
        plan = []
        for topic in found:
            known = [ends[tp] for tp in _partitions_of(topic) if tp in ends]
            unknown = len(topic.partitions) - len(known)
            plan.append(
                f"delete topic {topic.name}: {len(topic.partitions)} partitions,"
                f" {sum(last - first for first, last in known)} offsets in use"
                + (f", unknown for {unknown} partitions" if unknown else "")
            )
        if await confirmed(args, plan):
            deleted = await admin.delete_topics([topic.name for topic in found])
            failed = report("topic", _without(deleted.errors(), *ignored))
            return report("topic", errors) or failed
    return report("topic", errors)


def _without(errors: dict[_K, KafkaError], *ignored: type[KafkaError]) -> dict[_K, KafkaError]:
    return {name: error for name, error in errors.items() if not isinstance(error, ignored)}


async def _alter(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    from aiokafka_lite.admin import (
        AlterConfigOp,
        ConfigResource,
        ConfigResourceType,
        NewPartitions,
    )

    changes: list[Any] = [
        *(AlterConfigOp.set(*pair) for pair in pairs("--set", args.set).items()),
        *(AlterConfigOp.delete(name) for name in args.delete),
        *(AlterConfigOp.append(*pair) for pair in pairs("--append", args.append).items()),
        *(AlterConfigOp.subtract(*pair) for pair in pairs("--subtract", args.subtract).items()),
    ]
    if not changes and args.partitions is None:
        raise UsageError("nothing to change: add --set, --delete, --append or --partitions")
    described = (await admin.describe_topics(args.topics, typed=True)).raise_for_errors()
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in args.topics]
    before = (await admin.describe_configs(resources, typed=True)).raise_for_errors()
    plan = []
    for resource in resources:
        for change in changes:
            entry = before[resource].get(change.name)
            old = None if entry is None else entry.value
            new = "" if change.value is None else f" {change.value}"
            plan.append(
                f"{resource.name}: {change.operation.name.lower()} {change.name}{new} (now {old})"
            )
        if args.partitions is not None:
            now = len(described[resource.name].partitions)
            plan.append(f"{resource.name}: partitions {now} -> {args.partitions}")
    if not await confirmed(args, plan):
        return OK
    status = OK
    if changes:
        altered = await admin.incremental_alter_configs(dict.fromkeys(resources, changes))
        status = report("topic", altered.errors())
    if args.partitions is not None:
        wanted = {name: NewPartitions(args.partitions) for name in args.topics}
        grown = await admin.create_partitions(wanted, raise_errors=False)
        status = report("topic", grown.errors()) or status
    return status


async def _offsets(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    described = await admin.describe_topics(args.topics, typed=True)
    ends, errors = await _known_ends(admin, described.valid().values())
    at = None if args.offset is None else await _at(admin, args.offset, ends)
    rows: list[dict[str, Any]] = []
    for tp, (first, last) in ends.items():
        row = {"topic": tp.topic, "partition": tp.partition, "start": first, "end": last}
        rows.append(row if at is None else {**row, "at": at[tp]})
    columns = ["topic", "partition", "start", "end"]
    Output(args).rows(columns if at is None else [*columns, "at"], rows)
    return report("topic", {**described.errors(), **errors})


async def _trim(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    from aiokafka_lite.admin import RecordsToDelete

    described = (await admin.describe_topics([args.topic], typed=True)).raise_for_errors()
    partitions = _partitions_of(described[args.topic])
    if args.partitions is not None:
        numbers = {int(each) if each.isdecimal() else -1 for each in args.partitions.split(",")}
        if not numbers <= {tp.partition for tp in partitions}:
            raise UsageError(f"-p {args.partitions}: {args.topic} has {len(partitions)} partitions")
        partitions = [tp for tp in partitions if tp.partition in numbers]
    ends = await _ends(admin, partitions)
    keep = await _at(admin, args.offset, ends)
    wanted = {tp: offset for tp, offset in keep.items() if offset > ends[tp][0]}
    if not wanted:
        return OK
    plan = [
        f"{tp.topic}/{tp.partition}: start {ends[tp][0]} -> {offset} (end {ends[tp][1]})"
        for tp, offset in wanted.items()
    ]
    if not await confirmed(args, plan):
        return OK
    deleted = await admin.delete_records(
        {tp: RecordsToDelete(offset) for tp, offset in wanted.items()}, raise_errors=False
    )
    return report("topic", deleted.errors())


def _copy(args: argparse.Namespace) -> int:
    from aiokafka_lite.cli.running import Work, run_prepared

    def prepare() -> Work:
        from aiokafka_lite.cli.transfer.copying import CopyPlan, copy_topic

        plan = CopyPlan.of(args)
        return lambda: copy_topic(plan)

    return run_prepared("topic", args, prepare)


async def _ends(
    admin: AIOKafkaAdminClient, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the first offset of each partition, and the one after its last record."""
    from aiokafka_lite.admin import OffsetSpec

    first = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    last = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    starts, ends = first.raise_for_errors(), last.raise_for_errors()
    return {tp: (starts[tp].offset or 0, ends[tp].offset or 0) for tp in partitions}


async def _known_ends(
    admin: AIOKafkaAdminClient, topics: Iterable[TopicDescription]
) -> tuple[dict[TopicPartition, tuple[int, int]], dict[TopicPartition, Exception]]:
    """Return the same for those partitions whose leaders answer, and the errors of the others."""
    from aiokafka_lite.admin import OffsetSpec
    from aiokafka_lite.errors import KafkaError, LeaderNotAvailableError
    from aiokafka_lite.structs import TopicPartition

    led: list[TopicPartition] = []
    errors: dict[TopicPartition, Exception] = {}
    for topic in topics:
        for number, each in topic.partitions.items():
            tp = TopicPartition(topic.name, number)
            if each.leader is None:
                errors[tp] = LeaderNotAvailableError(f"{tp.topic}/{tp.partition} has no leader")
            else:
                led.append(tp)
    try:
        first = await admin.list_offsets(dict.fromkeys(led, OffsetSpec.EARLIEST)) if led else None
        last = await admin.list_offsets(dict.fromkeys(led, OffsetSpec.LATEST)) if led else None
    except KafkaError as error:
        return {}, {**errors, **dict.fromkeys(led, error)}
    if first is None or last is None:
        return {}, errors
    starts, ends = first.valid(), last.valid()
    found = {
        tp: (starts[tp].offset or 0, ends[tp].offset or 0)
        for tp in led
        if tp in starts and tp in ends
    }
    return found, {**errors, **first.errors(), **last.errors()}


async def _at(
    admin: AIOKafkaAdminClient, text: str, ends: dict[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """Return an offset of the grammar in each partition, within the partition."""
    from aiokafka_lite.cli.offsets.offset_grammar import Kind, parse_offset

    wanted = parse_offset(text)
    bound = wanted.start
    if wanted.end is not None or bound.kind is Kind.STORED:
        raise UsageError(f"-o {text}: write one offset or time, not a range")
    found: dict[TopicPartition, int] = {}
    if bound.kind is Kind.TIME:
        at = await admin.list_offsets(dict.fromkeys(ends, bound.number))
        for tp, info in at.raise_for_errors().items():
            found[tp] = ends[tp][1] if info.offset is None else info.offset
        return found
    for tp, (first, last) in ends.items():
        base = {Kind.START: first, Kind.END: last, Kind.EXACT: 0}[bound.kind]
        offset = base - bound.number if bound.kind is Kind.END else base + bound.number
        found[tp] = min(max(offset, first), last)
    return found


async def _chosen(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> list[str]:
    if not args.regex:
        return list(dict.fromkeys(args.topics))
    found = _matching(sorted(await admin.list_topics(list_internal=False)), args.topics)
    if not found and not getattr(args, "if_exists", False):
        raise CommandError(f"no topic matches {' '.join(args.topics)!r}")
    return found


def _matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise UsageError(f"{' '.join(patterns)!r} is not a regular expression: {error}") from None
    return [name for name in names if any(each.fullmatch(name) for each in compiled)]


def _among(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise CommandError(f"topic {missing[0]!r} does not exist")
    return list(dict.fromkeys(wanted))


def _partitions_of(topic: TopicDescription) -> list[TopicPartition]:
    from aiokafka_lite.structs import TopicPartition

    return [TopicPartition(topic.name, number) for number in topic.partitions]


def _is_healthy(partition: PartitionDescription) -> bool:
    return partition.leader is not None and set(partition.isr) >= set(partition.replicas)


def _summary(topic: TopicDescription) -> dict[str, Any]:
    partitions = topic.partitions.values()
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replicas": max((len(each.replicas) for each in partitions), default=0),
        "unhealthy": sum(not _is_healthy(each) for each in partitions),
        "internal": topic.is_internal,
        "topic_id": None if topic.topic_id is None else str(topic.topic_id),
    }


def _partition(topic: TopicDescription, each: PartitionDescription) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partition": each.partition,
        "leader": each.leader,
        "replicas": each.replicas,
        "isr": each.isr,
        "leader_epoch": each.leader_epoch,
        "offline_replicas": each.offline_replicas,
        "error": None if each.error is None else str(each.error),
    }
