"""What a write is told: options and columns of Spark's `kafka` sink, and how sure it is to be.

Checked on the driver, before a task starts: whatever is wrong is refused by its name. The types of
the columns are told by their `simpleString()`, so that this module needs no pyspark.
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
    "topic": "Topic of every row; wins over a column `topic`.",
    "deliveryGuarantee": "`at_least_once` (the default) or `exactly_once`.",
    "transactionalIdPrefix": "With `exactly_once`: beginning of the transactional ids, and of the "
    f"groups that hold the marks of what was written (default `{DEFAULT_PREFIX}`).",
    "writeId": "With `exactly_once`, batch only: name of this write. A write that is repeated "
    "under its name writes nothing twice; neither does one in `foreachBatch` when its micro-batch "
    "is repeated. Each value of the option `topic` counts as a write of its own, so that a fan-out "
    "to several topics may share one name. The default is a new name each time.",
}
"""The sink's own options, beside `kafka.*`; for the docs, too."""

_SPARKS_OWN: Final = frozenset({"path", "checkpointlocation", "queryname", "outputmode"})
"""What Spark itself may hand on to a sink."""

_EXACT_ARGUMENTS: Final[Mapping[str, object]] = {"transaction_timeout_ms": 300_000}
"""Where `kafka.*` does not say otherwise: a task's transaction is open as long as it writes."""

_BULK_ARGUMENTS: Final[Mapping[str, object]] = {"max_batch_size": 131_072, "linger_ms": 5}
"""Likewise: a task writes thousands of rows at a time, so that larger batches cost less and wait
for nothing; those of the last rows do not linger (they are flushed)."""

_HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"


class DataType(Protocol):
    """What is asked of a type of pyspark's."""

    def simpleString(self) -> str: ...


class Field(Protocol):
    """What is asked of a `StructField`."""

    @property
    def name(self) -> str: ...

    @property
    def dataType(self) -> DataType: ...


class Schema(Protocol):
    """What is asked of a `StructType`."""

    @property
    def fields(self) -> Sequence[Field]: ...


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Which column is which, by its index; None for one that is not there.

    Source: KafkaWriter of Spark's connector, for the columns, their types and the words.

    Attributes:
        constant_topic: The option `topic`, which wins over the column.
    """

    value: int
    key: int | None
    headers: int | None
    partition: int | None
    topic: int | None
    constant_topic: str | None

    @property
    def only_topic(self) -> str | None:
        """The topic of every row, if nothing else says where a row goes or what it carries."""
        if self.partition is None and self.headers is None:
            return self.constant_topic
        return None

    @classmethod
    def of(cls, schema: Schema, topic: str | None) -> RowLayout:
        """The layout of a data frame's rows. Columns of other names are left out, as Spark does.

        Raises:
            KafkaConfigurationError: A column is missing, or of a wrong type.
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
            raise KeyError("value")  # it was found above
        return cls(
            value=value,
            key=place("key", "string", "binary"),
            headers=place("headers", _HEADERS_TYPE),
            partition=place("partition", "int"),
            topic=place("topic", "string"),
            constant_topic=topic,
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """A write, checked.

    Attributes:
        layout: Of its rows.
        producer: Arguments of an `AIOKafkaProducer`.
        exactly_once: One transaction a task, with a mark of the epoch in it.
        prefix: Of the transactional ids, and of the marks' groups.
        write_id: Name of a batch write; None for one of its own.
    """

    layout: RowLayout
    producer: Mapping[str, object] = field(repr=False)  # its passwords
    exactly_once: bool
    prefix: str
    write_id: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str], schema: Schema, *, streaming: bool) -> WriteOptions:
        """Check what a write was told.

        Args:
            options: Of the data frame's writer; their names in any case.
            schema: Of its rows.
            streaming: Whether it is a stream's.

        Raises:
            KafkaConfigurationError: An option that is not known, or cannot be honoured; a column
                that is missing, or of a wrong type.
        """
        given = {name.lower(): text for name, text in options.items()}
        for name in given:
            _check_known(name)
        topic = given.get("topic")
        if topic is not None and not (topic := topic.strip()):  # Spark's own strips it, too
            raise KafkaConfigurationError("the option topic should not be empty")
        guarantee = given.get("deliveryguarantee", AT_LEAST_ONCE).lower()
        if guarantee not in (AT_LEAST_ONCE, EXACTLY_ONCE):
            raise KafkaConfigurationError(
                f"deliveryGuarantee should be {AT_LEAST_ONCE} or {EXACTLY_ONCE}, not {guarantee!r}"
            )
        exactly_once = guarantee == EXACTLY_ONCE
        if not exactly_once:
            for name in ("transactionalIdPrefix", "writeId"):
                if name.lower() in given:
                    raise KafkaConfigurationError(
                        f"{name} is for deliveryGuarantee={EXACTLY_ONCE} only"
                    )
        if streaming and "writeid" in given:
            raise KafkaConfigurationError(
                "writeId is for batch writes: a stream's name is that of its checkpoint"
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
        raise KafkaConfigurationError(f"the option {name} should not be empty")
    return found


def _check_known(name: str) -> None:
    """Refuse what is no option of a sink.

    Raises:
        KafkaConfigurationError: It is none; the nearest is named.
    """
    known = {each.lower(): each for each in WRITE_OPTIONS}
    if name in known or name in _SPARKS_OWN or name.startswith("kafka."):
        return
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {known[near[0]]}?" if near else ""
    raise KafkaConfigurationError(
        f"{name} is no option of the kafka_lite sink{hint} "
        f"(it knows {', '.join(WRITE_OPTIONS)} and kafka.*)"
    )
