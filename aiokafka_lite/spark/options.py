"""The options of a reader: those of Spark's own connector, and a few more.

`TABLE` defines every option; parsing and the documentation page both use it. Names are
case-insensitive, as in Spark. `client_options` handles `kafka.*`.

Source: KafkaSourceProvider of Spark's connector, for the checks and their messages.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, Self, TypeAlias, cast

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.spark.kafka_options.client_options import (
    PREFIX,
    consumer_arguments,
    kafka_options,
)
from aiokafka_lite.spark.limits import Limit, check_limits, limit
from aiokafka_lite.spark.partition_offsets import EARLIEST, LATEST
from aiokafka_lite.spark.selection import Selection, selection
from aiokafka_lite.spark.write_options import WRITE_OPTIONS

__all__ = ["TABLE", "Option", "ReadOptions", "check_readable", "includes_headers"]

logger = logging.getLogger(__name__)

Converter: TypeAlias = Callable[[str, str], object]
"""Converts an option's name and text to its value."""

BATCH: Final = "batch"
STREAMING: Final = "streaming"
BOTH: Final = "batch and streaming"

_SECONDS: Final = {
    "us": 1e-6, "ms": 1e-3, "": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400
}  # fmt: skip


def _unchanged(_: str, text: str) -> str:
    return text


def _flag(name: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise _wrong(name, "true or false", text)
    return text.strip().lower() == "true"


def _count(name: str, text: str) -> int:
    count = _whole(name, text)
    if count <= 0:
        raise KafkaConfigurationError(f"{name} must be positive, not {count}")
    return count


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _wrong(name, "a whole number", text) from None


def _milliseconds(name: str, text: str) -> float:
    number = _whole(name, text)
    if number < 0:
        raise _wrong(name, "a number of milliseconds, not less than 0", text)
    return number / 1000


def _duration(name: str, text: str) -> float:
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if found is None or found[2] not in _SECONDS:
        raise _wrong(name, "a time such as 50s, 100ms or 15m (us, ms, s, min, h, d)", text)
    return int(found[1]) * _SECONDS[found[2]]


def _wrong(name: str, wanted: str, text: str) -> KafkaConfigurationError:
    return KafkaConfigurationError(f"Option '{name}' should be {wanted}, not {text!r}")


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a reader.

    Attributes:
        name: The name as in Spark's documentation.
        default: The default as a user would write it; "" for none.
        queries: The queries it applies to: `BATCH`, `STREAMING` or `BOTH`.
        meaning: Its documentation; one paragraph of Markdown.
        convert: Converts its text to its value.
        ours: True if Spark's own connector has no such option.
    """

    name: str
    default: str
    queries: str
    meaning: str
    convert: Converter = _unchanged
    ours: bool = False

    @property
    def key(self) -> str:
        """The name as Spark passes it to a Python data source."""
        return self.name.lower()


TABLE: Final = (
    Option(
        "kafka.bootstrap.servers",
        "",
        BOTH,
        "Addresses of brokers, `host:port`, separated by commas. Required.",
    ),
    Option("subscribe", "", BOTH, "Topics to read, separated by commas."),
    Option(
        "subscribePattern",
        "",
        BOTH,
        "Regular expression to search for in topic names; matching topics are read. Python's `re` "
        "must support it: `\\p{...}` and `&&` in a class raise an error.",
    ),
    Option("assign", "", BOTH, 'Partitions to read: `{"topicA":[0,1],"topicB":[2,4]}`.'),
    Option(
        "startingTimestamp",
        "",
        BOTH,
        "Start each partition at its first record of this time or later, in milliseconds since "
        "1970. Takes precedence over `startingOffsetsByTimestamp` and `startingOffsets`. Applies "
        "only to a new streaming query, not to one that resumes.",
    ),
    Option(
        "startingOffsetsByTimestamp",
        "",
        BOTH,
        'The same per partition: `{"topicA":{"0":1000,"1":1000}}`. Takes precedence over '
        "`startingOffsets`.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "error",
        BOTH,
        "For a partition without such a record: `error` to fail, or `latest` to start at its end.",
    ),
    Option(
        "startingOffsets",
        "latest (streaming), earliest (batch)",
        BOTH,
        'Where to start: `earliest`, `latest` (streaming only) or `{"topicA":{"0":23,"1":-1}}`, '
        "where -2 is the earliest and -1 the latest offset; `earliest` or `latest` may also be set "
        "for all partitions of a topic. New partitions start at the earliest.",
    ),
    Option(
        "endingTimestamp", "", BATCH, "End each partition before its first record of this time."
    ),
    Option("endingOffsetsByTimestamp", "", BATCH, "The same per partition."),
    Option(
        "endingOffsets",
        "latest",
        BATCH,
        'Where to end: `latest`, or offsets as in `startingOffsets`, except -2.',
    ),
    Option(
        "failOnDataLoss",
        "true",
        BOTH,
        "Fail if records were deleted before they were read (by retention, or with their topic); "
        "otherwise log a warning and continue with the available records.",
        _flag,
    ),
    Option(
        "includeHeaders",
        "false",
        BOTH,
        "Add the column `headers`, an array of `key` and `value`.",
        _flag,
    ),
    Option(
        "minPartitions",
        "",
        BOTH,
        "Approximate minimum number of tasks: large offset ranges are split in proportion to "
        "their size.",
        _count,
    ),
    Option(
        "maxRecordsPerPartition",
        "",
        BOTH,
        "Maximum number of offsets per task; applied before `minPartitions`.",
        _count,
    ),
    Option(
        "maxTasks",
        "",
        BOTH,
        "Maximum number of tasks: Kafka's partitions are grouped into this many tasks of similar "
        "size. By default one task per 50,000 records, and beyond eight tasks one per 200,000, but "
        "no more than there are partitions; with `minPartitions` or `maxRecordsPerPartition` one "
        "per partition.",
        _count,
        ours=True,
    ),
    Option(
        "maxOffsetsPerTrigger",
        "",
        STREAMING,
        "Approximate maximum number of offsets per micro-batch, split among the partitions in "
        "proportion to their available offsets.",
        _count,
    ),
    Option(
        "minOffsetsPerTrigger",
        "",
        STREAMING,
        "Minimum number of available offsets for a micro-batch to start before `maxTriggerDelay` "
        "expires.",
        _count,
    ),
    Option(
        "maxTriggerDelay",
        "15m",
        STREAMING,
        "Maximum time that records wait for `minOffsetsPerTrigger`: 50s, 15m, 1h.",
        _duration,
    ),
    Option(
        "fetchOffset.numRetries", "3", BOTH, "Total number of attempts to fetch offsets.", _count
    ),
    Option(
        "fetchOffset.retryIntervalMs",
        "1000",
        BOTH,
        "Pause before the next attempt to fetch offsets, in milliseconds.",
        _milliseconds,
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        "120000",
        BOTH,
        "Maximum time that a task waits for records that should exist, in milliseconds. A task "
        "takes about 5 seconds to learn whether they exist, and does not fail earlier.",
        _milliseconds,
    ),
    Option(
        "groupIdPrefix",
        "",
        BOTH,
        "Accepted, but has no effect: records are read without a consumer group, so neither a "
        "group nor permission to use one is needed. The same applies to `kafka.group.id`.",
    ),
    Option(
        "pushdown",
        "false",
        BATCH,
        "Use Spark's filters on `topic`, `partition`, `offset` and `timestamp` to read fewer "
        "records (requires `spark.sql.python.filterPushdown.enabled`, without which Spark rejects "
        "the query).",
        _flag,
        ours=True,
    ),
)  # fmt: skip
"""Every option of a reader; of `kafka.*` only the required one."""

_BY_KEY: Final = {option.key: option for option in TABLE}

_OF_OTHERS: Final = frozenset(
    {name.lower() for name in WRITE_OPTIONS}
    | {"checkpointlocation", "outputmode", "path", "queryname"}
)
"""Options of the sink, ignored because jobs may pass one set of options to source and sink."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A reader's validated options. Durations are in seconds; None means not set.

    Attributes:
        ending: Where a batch ends; unused in a stream.
        fetch_attempts: Maximum number of attempts to fetch offsets.
        fetch_pause: Pause between two attempts.
        poll_timeout: How long a task waits for records that should exist.
        consumer: Arguments of the consumers.
    """

    selection: Selection
    starting: Limit
    ending: Limit
    fail_on_data_loss: bool
    include_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_tasks: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: float
    fetch_attempts: int
    fetch_pause: float
    poll_timeout: float
    pushdown: bool
    consumer: Mapping[str, object] = field(repr=False)  # contains passwords

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> Self:
        """Parse and validate the options of a reader.

        Args:
            options: The options from Spark, with names in any case.
            streaming: True for a stream, False for a batch.

        Raises:
            KafkaConfigurationError: An option is missing, invalid, contradicts another, or looks
                like a misspelled name.
            SourceStateError: `startingOffsets` and `endingOffsets` contradict each other.
        """
        given = {name.lower(): text for name, text in options.items()}
        parsed = cls._parsed(given, streaming)
        _warn(given, streaming)
        return parsed

    @classmethod
    def _parsed(cls, given: Mapping[str, str], streaming: bool) -> Self:
        _check_names(given, streaming)
        values = {
            key: opt.convert(opt.name, given[key]) for key, opt in _BY_KEY.items() if key in given
        }
        starting = limit(given, "starting", LATEST if streaming else EARLIEST)
        ending = limit(given, "ending", LATEST)
        if not streaming:
            check_limits(starting, ending)
        parsed = cls(
            selection=selection(given),
            starting=starting,
            ending=ending,
            fail_on_data_loss=cast(bool, values.get("failondataloss", True)),
            include_headers=cast(bool, values.get("includeheaders", False)),
            min_partitions=cast(int | None, values.get("minpartitions")),
            max_records_per_partition=cast(int | None, values.get("maxrecordsperpartition")),
            max_tasks=cast(int | None, values.get("maxtasks")),
            max_offsets_per_trigger=cast(int | None, values.get("maxoffsetspertrigger")),
            min_offsets_per_trigger=cast(int | None, values.get("minoffsetspertrigger")),
            max_trigger_delay=cast(float, values.get("maxtriggerdelay", 900.0)),
            fetch_attempts=cast(int, values.get("fetchoffset.numretries", 3)),
            fetch_pause=cast(float, values.get("fetchoffset.retryintervalms", 1.0)),
            poll_timeout=cast(float, values.get("kafkaconsumer.polltimeoutms", 120.0)),
            pushdown=cast(bool, values.get("pushdown", False)),
            consumer=consumer_arguments(given),
        )
        parsed._check()
        return parsed

    def _check(self) -> None:
        least, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise KafkaConfigurationError(
                f"The value of minOffsetsPerTrigger({least}) is higher than the "
                f"maxOffsetsPerTrigger({most})."
            )
        if None not in (self.min_partitions, self.max_tasks) and (
            cast(int, self.min_partitions) > cast(int, self.max_tasks)
        ):
            raise KafkaConfigurationError(
                f"The value of minPartitions({self.min_partitions}) is higher than the "
                f"maxTasks({self.max_tasks})."
            )


def check_readable(options: Mapping[str, str]) -> None:
    """Reject options that neither a batch nor a stream accepts, before the query type is known.

    It logs no warnings: the reader does so later.

    Args:
        options: The options from Spark, with names in any case.

    Raises:
        KafkaConfigurationError, SourceStateError: See `ReadOptions.parse`.
    """
    given = {name.lower(): text for name, text in options.items()}
    # A stream accepts all options of a batch but these, and may also begin at the latest offset.
    ends = any(_is_of_batches(option) for key, option in _BY_KEY.items() if key in given)
    ReadOptions._parsed(given, streaming=not ends)


def includes_headers(options: Mapping[str, str]) -> bool:
    """Return True if records have a headers column; the schema depends on nothing else.

    Args:
        options: The options from Spark, with names in any case.

    Raises:
        KafkaConfigurationError: `includeHeaders` is neither true nor false.
    """
    for name, text in options.items():
        if name.lower() == "includeheaders":
            return _flag("includeHeaders", text)
    return False


def _check_names(given: Mapping[str, str], streaming: bool) -> None:
    """Reject options of the other query type, and misspelled options."""
    for key in given:
        if key.startswith(PREFIX) or key in _OF_OTHERS:
            continue
        option = _BY_KEY.get(key)
        if option is None:
            near = get_close_matches(key, _BY_KEY, 1, 0.85)
            if near:
                # Spark's own connector ignores it and may read everything instead of a part.
                raise KafkaConfigurationError(
                    f"Kafka source has no option '{key}'; did you mean '{_BY_KEY[near[0]].name}'?"
                )
        elif streaming and _is_of_batches(option):
            kind = "timestamp" if "timestamp" in key else "offset"
            raise KafkaConfigurationError(
                f"ending {kind} not valid in streaming queries (option '{option.name}')"
            )


def _is_of_batches(option: Option) -> bool:
    """Return True if streams do not accept the option."""
    return option.queries == BATCH and option.key != "pushdown"


def _warn(given: Mapping[str, str], streaming: bool) -> None:
    for key in given:
        option = _BY_KEY.get(key)
        if option is None:
            if not key.startswith(PREFIX) and key not in _OF_OTHERS:
                logger.warning("Kafka source has no option %r; ignoring it", key)
        elif not streaming and option.queries == STREAMING:
            logger.warning("%s option ignored in batch queries", option.name)
    if "group.id" in kafka_options(given):
        logger.warning(
            "Kafka option 'kafka.group.id' has been set on this query, but has no effect: records "
            "are read without a consumer group"
        )
