"""Flags that `group` and `share` have in common."""

import argparse
from typing import Final

TARGET: Final = "start, end, an offset, +10 after the start, -10 before the end, or a time: @-1h"
"""Help text of `seek --to`; `offsets.offset_grammar` parses it."""


def add_topic_flag(
    parser: argparse.ArgumentParser,
    help: str,
    *,
    with_partitions: bool = True,
    required: bool = False,
) -> None:
    """Add `--topic`, which may be repeated, as `args.topics`.

    Args:
        with_partitions: True if the flag can select partitions of the topic.
        required: True if the flag must be given at least once.
    """
    parser.add_argument(
        "--topic",
        metavar="TOPIC[:0,1]" if with_partitions else "TOPIC",
        dest="topics",
        action="append",
        default=None if required else [],
        required=required,
        help=help,
    )
