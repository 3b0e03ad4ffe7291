"""`consume TOPIC..`: writes records to standard output, as lines, in a format, or as JSON lines."""

from __future__ import annotations

import argparse
from typing import Final

from aiokafka_lite.cli.connection.durations import duration
from aiokafka_lite.cli.connection.flags import add_connection_flags
from aiokafka_lite.cli.counts import at_least_one

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = r"""
examples:
  aiokafka-lite consume orders                      every value, then follow the topic
  aiokafka-lite consume orders -e -f '%o %k %v\n'   up to the present end
  aiokafka-lite consume orders -J --tail 10         the last ten records of each partition
  aiokafka-lite consume orders -o @-1h:-30m         half an hour, an hour ago
  aiokafka-lite consume orders --grep 'k:^table-4$' --grep '!v:tea'
  aiokafka-lite consume orders -g kitchen           as a member of a group
  aiokafka-lite consume jobs --share-group workers -f '%D %v\n'

offsets:
  start, end          the first record; after the last one
  100, +10, -10       an offset; so many after the start, or before the end
  100:200, :200, :end a range, which ends before its second offset
  @-1h, @2026-11-23T10:00, @1700000000000           by time
  @T1:T2, @T1:end     a range of time

formats:
  %t topic  %p partition  %o offset  %k key  %v value  %d timestamp  %h headers  %i number
  %K %V sizes  %H number of headers  %e leader epoch  %a timestamp type  %D delivery count
  modifiers: %v{hex} %v{base64} %V{big32} %d{strftime[%F %T]} %h{%k=%v } %k{unpack[>q$]}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `consume`."""
    add = parser.add_argument
    add("topics", metavar="TOPIC", nargs="+", help="the topics; with -r, regular expressions")
    add("-r", "--regex", action="store_true", help="read every topic that a pattern matches")
    add("-o", "--offset", metavar="OFFSET", help="where to begin and end; default: start")
    add("-p", "--partitions", metavar="0,1", help="only these partitions")
    add("-n", "--count", metavar="N", type=at_least_one, help="end after N records")
    add("-e", "--exit", action="store_true", help="end at the end of the topic, as it is now")
    add(
        "--tail",
        metavar="N",
        type=at_least_one,
        help="begin with the last N records of each partition; only records count, not the gaps of"
        " compaction and transactions",
    )
    add("--idle", metavar="TIME", type=duration, help="end after this long without a record")
    add("-f", "--format", metavar="FORMAT", help=r"how to write a record; default: %%v\n")
    add("-J", "--json", action="store_true", help="write complete records as JSON lines")
    add(
        "--value",
        metavar="KIND",
        default="auto",
        help="values as auto, text, json, hex, base64 or unpack:FORMAT; default: auto",
    )
    add("--keys-only", action="store_true", help="write keys, and no values")
    add(
        "--grep",
        metavar="[!]FIELD:RE",
        action="append",
        default=[],
        help="only records whose key (k:RE), value (v:RE), topic (t:RE) or header (h:NAME=RE)"
        " matches or, with !, does not; may be repeated, and all have to hold",
    )
    add("-g", "--group", metavar="GROUP", help="read as a member of this group, and commit")
    add("--no-commit", action="store_true", help="with -g: commit nothing")
    add("--share-group", metavar="GROUP", help="read as a member of this share group")
    add(
        "--ack",
        choices=("accept", "release", "reject"),
        help="with --share-group: accept records after they were written (default), reject them, or"
        " release them when the command ends",
    )
    add("--committed", action="store_true", help="hide records of open and aborted transactions")
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Write the records; return 0 unless something failed."""
    from aiokafka_lite.cli.connection.settings import gather
    from aiokafka_lite.cli.running import Work, run_prepared

    def prepare() -> Work:
        from aiokafka_lite.cli.transfer.consume_plan import Plan
        from aiokafka_lite.cli.transfer.consuming import consume

        plan = Plan.of(args, gather(args))
        return lambda: consume(plan)

    return run_prepared("consume", args, prepare)
