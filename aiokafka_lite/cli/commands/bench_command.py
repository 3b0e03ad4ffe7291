"""`bench produce|consume|latency TOPIC`: measures throughput and latency against a cluster."""

from __future__ import annotations

import argparse
from typing import Final

from aiokafka_lite.cli.connection.durations import duration
from aiokafka_lite.cli.connection.flags import add_connection_flags
from aiokafka_lite.cli.counts import at_least_one

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite bench produce load --records 1000000 --size 100
  aiokafka-lite bench produce load --rate 20000 -X linger.ms=5 -X compression.type=zstd
  aiokafka-lite bench consume load --records 1000000
  aiokafka-lite bench latency load --records 10000

The topic has to exist. `produce` and `latency` write to it: use a dedicated topic.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `bench`."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, purpose in (
        ("produce", "send records as fast as possible, or at a rate"),
        ("consume", "read records from the start of a topic"),
        ("latency", "send records one by one, and wait until a consumer has each"),
    ):
        action = commands.add_parser(
            name,
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.",
            allow_abbrev=False,
        )
        add = action.add_argument
        add("topic", metavar="TOPIC", help="the topic; it has to exist")
        default = 1_000 if name == "latency" else 100_000
        add(
            "--records",
            "--num-records",
            metavar="N",
            type=at_least_one,
            default=default,
            help=f"number of records; default: {default:,}",
        )
        if name != "consume":
            add(
                "--size",
                "--record-size",
                metavar="BYTES",
                type=at_least_one,
                default=100,
                help="size of each value in bytes; default: 100",
            )
        if name == "produce":
            add(
                "--rate",
                "--throughput",
                metavar="N",
                type=at_least_one,
                help="records a second; default: as many as possible",
            )
        add(
            "--warmup",
            metavar="TIME",
            type=duration,
            default=0.0,
            help="start measuring after this long, such as 5s",
        )
        add("-J", "--json", action="store_true", help="print the result as JSON")
        add_connection_flags(action)


def run(args: argparse.Namespace) -> int:
    """Measure, and print the result."""
    from aiokafka_lite.cli.connection.settings import gather
    from aiokafka_lite.cli.running import Work, run_prepared

    def prepare() -> Work:
        from aiokafka_lite.cli.connection.client_arguments import (
            consumer_arguments,
            producer_arguments,
        )
        from aiokafka_lite.cli.transfer.benchmarking import measure

        settings = gather(args)
        producer, consumer = producer_arguments(settings), consumer_arguments(settings)
        return lambda: measure(args, producer, consumer, settings.timeout)

    return run_prepared("bench", args, prepare)
