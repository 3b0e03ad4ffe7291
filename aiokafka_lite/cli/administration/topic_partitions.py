"""`TOPIC[:0,1]`, as partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aiokafka_lite.cli.failures import UsageError

__all__ = ["parse_topic_partitions"]


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
