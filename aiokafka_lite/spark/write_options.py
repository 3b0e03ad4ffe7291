"""The options and columns of a write: those of Spark's `kafka` sink, and the delivery guarantee.

The driver validates them before a task starts, and errors name the option or column. Column types
are compared by `simpleString()`, so that this module does not need pyspark.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.spark.kafka_options.client_options import producer_arguments

__all__ = ["RowLayout", "Schema", "WriteOptions"]

AT_LEAST_ONCE: Final = "at_least_once"
EXACTLY_ONCE: Final = "exactly_once"

DEFAULT_PREFIX: Final = "aiokafka-lite-spark"

WRITE_OPTIONS: Final[Mapping[str, str]] = {
    "topic": "Topic of every row; overrides a column `topic`.",
    "deliveryGuarantee": "`at_least_once` (the default) or `exactly_once`.",
    "transactionalIdPrefix": "With `exactly_once`: prefix of the transactional ids, and of the "
    f"groups that contain the markers of completed writes (default `{DEFAULT_PREFIX}`).",
    "writeId": "With `exactly_once`, batch only: name of this write. A write that is repeated "
    "under its name writes nothing twice; neither does one in `foreachBatch` when its micro-batch "
    "is repeated. Each value of the option `topic` counts as a separate write, so a fan-out to "
    "several topics may share one name. By default a new name is generated each time.",
}
"""The sink's options besides `kafka.*`; also used for the documentation."""

_SPARKS_OWN: Final = frozenset({"path", "checkpointlocation", "queryname", "outputmode"})
"""Options that Spark itself may pass to a sink."""

_EXACT_ARGUMENTS: Final[Mapping[str, object]] = {"transaction_timeout_ms": 300_000}
"""Defaults under `kafka.*`: a task's transaction is open as long as the task writes."""

_BULK_ARGUMENTS: Final[Mapping[str, object]] = {"max_batch_size": 131_072, "linger_ms": 5}
"""More defaults: a task writes thousands of rows at a time, so larger batches are cheaper and fill
without delay; the last batches do not linger, because they are flushed."""

_HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"


class DataType(Protocol):
    """The interface of a pyspark data type."""

    def simpleString(self) -> str: ...


class Field(Protocol):
    """The interface of a `StructField`."""

    @property
    def name(self) -> str: ...

    @property
    def dataType(self) -> DataType: ...


class Schema(Protocol):
    """The interface of a `StructType`."""

    @property
    def fields(self) -> Sequence[Field]: ...


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The index of each column; None for a missing column, and for one that is not used.

    Source: KafkaWriter of Spark's connector, for the columns, their types and the messages.

    Attributes:
        constant_topic: The option `topic`, which overrides the column.
    """

    value: int
    key: int | None
    headers: int | None
    partition: int | None
    topic: int | None
    constant_topic: str | None

    @property
    def only_topic(self) -> str | None:
        """The topic of every row, if rows have no topic, partition or headers of their own."""
        if self.partition is None and self.headers is None:
            return self.constant_topic
        return None

    @classmethod
    def of(cls, schema: Schema, topic: str | None) -> RowLayout:
        """Return the layout of a DataFrame's rows. Other columns are ignored, as in Spark.

        Raises:
            KafkaConfigurationError: A column is missing or has the wrong type.
        """
        fields = {field.name: (at, field.dataType) for at, field in enumerate(schema.fields)}
        if topic is None and "topic" not in fields:
            raise KafkaConfigurationError(
                "topic option required when no 'topic' attribute is present. Use the topic option "
                "for setting a topic."
            )
        if "value" not in fields:
            raise KafkaConfigurationError(
                f"Required attribute 'value' not found in the columns {', '.join(fields) or '-'}"
            )

        def place(name: str, *types: str) -> int | None:
            if name not in fields:
                return None
            at, data_type = fields[name]
            found = data_type.simpleString()
            if found.split(" collate ")[0] not in types:
                raise KafkaConfigurationError(
                    f"{name} attribute type must be a {' or '.join(types)}, not {found}"
                )
            return at

        value = place("value", "string", "binary")
        if value is None:
            raise KeyError("value")  # unreachable: found above
        return cls(
            value=value,
            key=place("key", "string", "binary"),
            headers=place("headers", _HEADERS_TYPE),
            partition=place("partition", "int"),
            topic=None if topic is not None else place("topic", "string"),
            constant_topic=topic,
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The validated options of a write.

    Attributes:
        layout: The layout of its rows.
        producer: Arguments of an `AIOKafkaProducer`.
        exactly_once: One transaction per task, which includes a marker of the epoch.
        prefix: Prefix of the transactional ids and of the markers' groups.
        write_id: Name of a batch write; None for a generated one.
    """

    layout: RowLayout
    producer: Mapping[str, object] = field(repr=False)  # contains passwords
    exactly_once: bool
    prefix: str
    write_id: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str], schema: Schema, *, streaming: bool) -> WriteOptions:
        """Parse and validate the options of a write.

        Args:
            options: The options of the DataFrame's writer, with names in any case.
            schema: The schema of its rows.
            streaming: True for a streaming write.

        Raises:
            KafkaConfigurationError: An option is unknown or unsupported, or a column is missing
                or has the wrong type.
        """
        given = {name.lower(): text for name, text in options.items()}
        for name in given:
            _check_known(name)
        topic = given.get("topic")
        if topic is not None and not (topic := topic.strip()):  # as in Spark's own sink
            raise KafkaConfigurationError("Option 'topic' must not be empty")
        guarantee = given.get("deliveryguarantee", AT_LEAST_ONCE).lower()
        if guarantee not in (AT_LEAST_ONCE, EXACTLY_ONCE):
            raise KafkaConfigurationError(
                f"Option 'deliveryGuarantee' must be {AT_LEAST_ONCE} or {EXACTLY_ONCE}, not "
                f"{guarantee!r}"
            )
        exactly_once = guarantee == EXACTLY_ONCE
        if not exactly_once:
            for name in ("transactionalIdPrefix", "writeId"):
                if name.lower() in given:
                    raise KafkaConfigurationError(
                        f"Option '{name}' requires deliveryGuarantee={EXACTLY_ONCE}"
                    )
        if streaming and "writeid" in given:
            raise KafkaConfigurationError(
                "Option 'writeId' is for batch writes only: a stream is named by its checkpoint"
            )
        arguments = {**_BULK_ARGUMENTS, **(_EXACT_ARGUMENTS if exactly_once else {})}
        return cls(
            layout=RowLayout.of(schema, topic),
            producer={**arguments, **producer_arguments(given)},
            exactly_once=exactly_once,
            prefix=_named(given, "transactionalIdPrefix") or DEFAULT_PREFIX,
            write_id=_named(given, "writeId"),
        )


def _named(given: Mapping[str, str], name: str) -> str | None:
    found = given.get(name.lower())
    if found is not None and not found:
        raise KafkaConfigurationError(f"Option '{name}' must not be empty")
    return found


def _check_known(name: str) -> None:
    """Reject a name that is not an option of a sink.

    Raises:
        KafkaConfigurationError: The option is unknown; the message names the closest one.
    """
    known = {each.lower(): each for each in WRITE_OPTIONS}
    if name in known or name in _SPARKS_OWN or name.startswith("kafka."):
        return
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {known[near[0]]}?" if near else ""
    raise KafkaConfigurationError(
        f"{name} is not an option of the kafka_lite sink{hint} "
        f"(its options: {', '.join(WRITE_OPTIONS)} and kafka.*)"
    )
