"""`produce TOPIC [FILE..]`: sends lines, formatted records or JSON lines to a topic."""

from __future__ import annotations

import argparse
from typing import Final

from aiokafka_lite.cli.connection.flags import add_connection_flags
from aiokafka_lite.cli.counts import at_least_one, rate

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = r"""
examples:
  echo "one tea" | aiokafka-lite produce orders
  aiokafka-lite produce orders lines.txt --key table-4 -H source=till
  aiokafka-lite produce orders -K: < key-value-lines.txt
  aiokafka-lite produce orders -f '%K{big32}%k%V{big32}%v' < records.bin
  aiokafka-lite consume orders -J -e | aiokafka-lite produce orders-copy -J
  aiokafka-lite produce orders all-or-nothing.txt --transaction
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `produce`."""
    add = parser.add_argument
    add("topic", metavar="TOPIC", help="the topic")
    add("files", metavar="FILE", nargs="*", help="what to send; standard input by default")
    add(
        "-f",
        "--format",
        metavar="FORMAT",
        help=r"format of the records: %%k key, %%v value, %%h headers, %%p partition, %%d time;"
        r" %%K and %%V are sizes; default: %%v\n, a value a line",
    )
    add("-J", "--json", action="store_true", help="records as JSON lines, as `consume -J` writes")
    add("-K", "--key-delimiter", metavar="DELIMITER", help="each line is KEY DELIMITER VALUE")
    add("-k", "--key", metavar="KEY", help="the key of all records")
    add(
        "-H",
        "--header",
        metavar="NAME=VALUE",
        dest="headers",
        action="append",
        default=[],
        help="a header of all records; may be repeated",
    )
    add(
        "-p",
        "--partition",
        metavar="N",
        help="the partition of all records, or `any` to let the key decide even with -J",
    )
    add("-z", "--compress", metavar="CODEC", help="gzip, snappy, lz4, zstd or none")
    add("-Z", "--null", action="store_true", help="send an empty value or key as null")
    add(
        "--value",
        metavar="KIND",
        default="auto",
        help="with -J: `json` for embedded JSON values",
    )
    add("--timestamp", metavar="TIME", help="the timestamp of all records: 2026-11-23T10:00, or ms")
    add("--acks", metavar="N", help="all (default), 1, or 0 for no confirmation")
    add("--rate", metavar="N", type=rate, help="at most N records a second")
    add("--repeat", metavar="N", type=at_least_one, default=1, help="send each record N times")
    add(
        "--transaction",
        metavar="ID",
        nargs="?",
        const="",
        help="send everything in one transaction, with this transactional id or a new one;"
        " write it after TOPIC and FILE",
    )
    add("--tee", action="store_true", help="also write each value, and a newline, to stdout")
    add(
        "--report",
        metavar="FORMAT",
        help=r"write this for each stored record: '%%p %%o\n' is its partition and offset",
    )
    add("--create", action="store_true", help="create the topic, if the broker allows it")
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Send the records; return 0 if every one was stored."""
    from aiokafka_lite.cli.connection.settings import gather
    from aiokafka_lite.cli.running import Work, run_prepared

    def prepare() -> Work:
        from aiokafka_lite.cli.transfer.producing import Plan, produce

        plan = Plan.of(args, gather(args))
        return lambda: produce(plan)

    return run_prepared("produce", args, prepare)
