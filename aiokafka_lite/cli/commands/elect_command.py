"""`elect`: elects leaders of partitions."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from aiokafka_lite.cli.administration.actions import report, run_action
from aiokafka_lite.cli.administration.confirmation import add_confirmation_flags, confirmed
from aiokafka_lite.cli.administration.output import Output, add_output_flags
from aiokafka_lite.cli.connection.flags import add_connection_flags
from aiokafka_lite.cli.failures import OK, UsageError

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient
    from aiokafka_lite.structs import TopicPartition

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite elect                     restore the preferred leader of every partition
  aiokafka-lite elect orders:0,1
  aiokafka-lite elect orders:3 --unclean  even a replica that lacks records, which are lost
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `elect`."""
    parser.add_argument(
        "topics", metavar="TOPIC[:0,1]", nargs="*", help="the partitions; default: all"
    )
    parser.add_argument(
        "--unclean",
        action="store_true",
        help="elect any live replica of partitions without a leader, which can lose records",
    )
    add_confirmation_flags(parser)
    add_output_flags(parser)
    add_connection_flags(parser)
    parser.set_defaults(execute=_elect)


def run(args: argparse.Namespace) -> int:
    """Elect leaders, and print those that changed."""
    return run_action("elect", args)


async def _elect(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    from aiokafka_lite.admin import ElectionType

    partitions = await _partitions(admin, args.topics)
    if args.unclean:
        if partitions is None:
            raise UsageError("--unclean can lose records: name the partitions")
        plan = [
            f"{tp.topic}/{tp.partition}: elect any live replica; records that only others have"
            " are lost"
            for tp in partitions
        ]
    else:
        count = "all" if partitions is None else len(partitions)
        plan = [f"elect the preferred leaders of {count} partitions"]
    if not await confirmed(args, plan):
        return OK
    election = ElectionType.UNCLEAN if args.unclean else ElectionType.PREFERRED
    elected = await admin.elect_leaders(election, partitions)
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "elected": changed}
        for tp, changed in sorted(elected.valid().items())
        if changed or partitions is not None
    ]
    Output(args).rows(["topic", "partition", "elected"], rows)
    return report("elect", elected.errors())


async def _partitions(admin: AIOKafkaAdminClient, texts: list[str]) -> list[TopicPartition] | None:
    if not texts:
        return None
    from aiokafka_lite.cli.administration.topic_partitions import parse_topic_partitions
    from aiokafka_lite.structs import TopicPartition

    wanted = parse_topic_partitions(texts)
    described = (await admin.describe_topics(list(wanted), typed=True)).raise_for_errors()
    found: list[TopicPartition] = []
    for topic, numbers in wanted.items():
        known = described[topic].partitions
        if numbers is not None and not numbers <= known.keys():
            raise UsageError(f"topic {topic!r} has the partitions 0 to {max(known)}")
        found += [TopicPartition(topic, number) for number in sorted(numbers or known)]
    return found
