"""The topics and partitions of a query: `subscribe`, `subscribePattern` or `assign`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.spark.partition_offsets import listed, parse_partitions
from aiokafka_lite.structs import TopicPartition

__all__ = ["Selection", "java_pattern", "selection"]

STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected topics or partitions; exactly one of the attributes is set.

    Attributes:
        topics: Reads all partitions of these topics.
        pattern: Reads all partitions of topics whose names contain a match.
        partitions: Reads only these partitions.
    """

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    partitions: tuple[TopicPartition, ...] = ()

    @property
    def names(self) -> tuple[str, ...] | None:
        """The topics to request metadata for; None for all."""
        if self.pattern is not None:
            return None
        return self.topics or tuple(sorted({tp.topic for tp in self.partitions}))

    def chosen(self, topics: Mapping[str, Collection[int]]) -> list[TopicPartition]:
        """Return the existing partitions to read, in order.

        Args:
            topics: Partition numbers by topic.
        """
        there = (TopicPartition(topic, number) for topic in topics for number in topics[topic])
        return sorted(self._among(there))

    def _among(self, there: Iterable[TopicPartition]) -> Iterable[TopicPartition]:
        if self.partitions:
            return set(self.partitions).intersection(there)
        pattern = self.pattern
        if pattern is None:
            return there
        return (tp for tp in there if pattern.search(tp.topic) is not None)

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"SubscribePattern[{self.pattern.pattern}]"
        if self.partitions:
            return f"Assign[{listed(self.partitions)}]"
        return f"Subscribe[{', '.join(self.topics)}]"


def selection(options: Mapping[str, str]) -> Selection:
    """Return the selection in a reader's options.

    Args:
        options: The options by lower-case name.

    Raises:
        KafkaConfigurationError: None or several of the three options are set, or one is invalid.
    """
    given = [name for name in STRATEGIES if name.lower() in options]
    if len(given) != 1:
        raise KafkaConfigurationError(
            f"{'Only one' if given else 'One'} of the following options "
            f"{'can' if given else 'must'} be specified for Kafka source: "
            f"{', '.join(STRATEGIES)}"
        )
    name = given[0]
    text = options[name.lower()].strip()
    if name == "assign":
        partitions = parse_partitions(text) if text.startswith("{") else []
        if not partitions:
            raise KafkaConfigurationError(
                f"No topicpartitions to assign as specified value for option 'assign' is {text!r}"
            )
        return Selection(partitions=tuple(partitions))
    if name == "subscribePattern":
        if not text:
            raise KafkaConfigurationError(
                "Pattern to subscribe is empty as specified value for option 'subscribePattern' "
                f"is {text!r}"
            )
        return Selection(pattern=java_pattern(text))
    topics = tuple(sorted({topic.strip() for topic in text.split(",") if topic.strip()}))
    if not topics:
        raise KafkaConfigurationError(
            f"No topics to subscribe to as specified value for option 'subscribe' is {text!r}"
        )
    return Selection(topics=topics)


# Java's quoting, group names and end of input. All other syntax that a pattern for topic names may
# use is the same in both languages, or `re` rejects it.
_JAVA: Final = re.compile(r"\\Q(?P<quoted>.*?)(?:\\E|$)|\(\?<(?P<group>[a-zA-Z])|(?P<end>\\z)|\\.")


def java_pattern(text: str) -> re.Pattern[str]:
    """Translate a Java pattern, to search for in topic names.

    Raises:
        KafkaConfigurationError: The pattern is invalid, or uses syntax that Python's `re` lacks
            (such as `\\p{Alpha}`, or `&&` in a class).
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # "&&" in a class differs from Java
            return re.compile(_JAVA.sub(_translated, text))
    except (re.error, FutureWarning) as error:
        raise KafkaConfigurationError(
            f"Option 'subscribePattern' is {text!r}, which cannot be used: {error}. It must be a "
            "Java regular expression that Python's `re` supports, too"
        ) from None


def _translated(found: re.Match[str]) -> str:
    if found["quoted"] is not None:
        return re.escape(found["quoted"])
    if found["group"] is not None:
        return f"(?P<{found['group']}"
    if found["end"] is not None:
        return r"\Z"
    return found[0]
