"""Parses `TOPIC[:0,1]` into partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aiokafka_lite.cli.failures import UsageError
from aiokafka_lite.structs import TopicPartition

if TYPE_CHECKING:
    from aiokafka_lite.cli.connection.lookup import Lookup

__all__ = ["parse_topic_partitions", "partitions_named"]


def parse_topic_partitions(texts: Sequence[str]) -> Mapping[str, frozenset[int] | None]:
    """Return the partition numbers of each topic; None stands for all.

    Raises:
        UsageError: A text has another form.
    """
    found: dict[str, frozenset[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        wanted = numbers.split(",")
        if not topic or (colon and not all(each.isdecimal() for each in wanted)):
            raise UsageError(f"{text!r} is not TOPIC or TOPIC:0,1")
        if not colon:
            found[topic] = None
            continue
        before = found.get(topic, frozenset())
        found[topic] = None if before is None else before | {int(each) for each in wanted}
    return found


async def partitions_named(lookup: Lookup, texts: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions that `--topic TOPIC[:0,1]` names, which have to exist.

    Raises:
        UsageError: A text has another form, or a topic has no such partition.
        CommandError: A topic does not exist.
    """
    wanted = parse_topic_partitions(texts)
    known = await lookup.partitions(wanted)
    found: list[TopicPartition] = []
    for topic, numbers in wanted.items():
        missing = (numbers or frozenset()) - set(known[topic])
        if missing:
            raise UsageError(
                f"--topic {topic}:{min(missing)}: {topic} has the partitions 0 to"
                f" {max(known[topic])}"
            )
        chosen = known[topic] if numbers is None else sorted(numbers)
        found += [TopicPartition(topic, number) for number in chosen]
    return found
