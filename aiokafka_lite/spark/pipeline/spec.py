"""What a pipeline is: a source, steps, a sink. Plain data, made from a file or in Python.

Nothing here needs Spark. `Pipeline.parse` reads the mapping that a TOML or YAML file holds; every
class can be made directly, too, with the same names. Options and configuration, which may hold a
password, do not show in what `repr` makes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiokafka_lite.spark.pipeline.fields import Fields, SpecError
from aiokafka_lite.spark.pipeline.pipeline_steps import Step, Window, parse_step

__all__ = ["KAFKA_FORMATS", "Pipeline", "Sink", "Source", "SpecError"]

KAFKA_FORMATS = ("kafka_lite", "kafka")
"""Formats that are given the options of the specification's `[kafka]` table."""

OUTPUT_MODES = ("append", "update", "complete")
WITHOUT_CHECKPOINT = ("console", "memory", "noop")
"""Sinks for looking at: they keep nothing, so there is nothing to go on from."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows come from: any format that Spark can read.

    Args:
        format: `kafka_lite`, `parquet`, `json`, `rate`, ...
        options: The format's options by Spark's names.
        schema: The columns as DDL (`id LONG, name STRING`), for file formats that have none
            of their own. Parquet's is read from its files.
        bounded: Read what is there once, as one batch, and end; a stream otherwise.
    """

    format: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema: str | None = None
    bounded: bool = False

    @classmethod
    def parse(cls, table: object, where: str, kafka: Mapping[str, str]) -> Source:
        fields = Fields(table, where)
        name = fields.text("format")
        source = cls(
            format=name,
            options=_with_kafka(name, kafka, fields.options("options")),
            schema=fields.text_or_none("schema"),
            bounded=fields.flag("bounded"),
        )
        fields.finish()
        return source


@dataclass(frozen=True, slots=True)
class Sink:
    """Where rows go: any format that Spark can write.

    Args:
        format: `kafka_lite`, `parquet`, `console`, ...
        options: The format's options by Spark's names.
        mode: `append`, `update` or `complete`, as Spark's output modes.
        checkpoint: The folder from which a stream goes on after it was ended, by whatever.
        trigger: Seconds between two batches as Spark writes them (`10 seconds`),
            `available_now`, or None for one batch after the other.
        partition_by: Columns that name the folders of a file sink.
    """

    format: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    mode: str = "append"
    checkpoint: str | None = None
    trigger: str | None = None
    partition_by: tuple[str, ...] = ()

    @classmethod
    def parse(cls, table: object, kafka: Mapping[str, str]) -> Sink:
        fields = Fields(table, "sink")
        name = fields.text("format")
        sink = cls(
            format=name,
            options=_with_kafka(name, kafka, fields.options("options")),
            mode=fields.choice("mode", OUTPUT_MODES, "append"),
            checkpoint=fields.text_or_none("checkpoint"),
            trigger=fields.text_or_none("trigger"),
            partition_by=fields.texts("partition_by"),
        )
        fields.finish()
        return sink

    @property
    def exactly_once(self) -> bool:
        """Whether the sink was asked to write each row once (`deliveryGuarantee`)."""
        return any(
            name.lower() == "deliveryguarantee" and value.lower() == "exactly_once"
            for name, value in self.options.items()
        )


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One pipeline, ready to be run by `aiokafka_lite.spark.pipeline.run`.

    Args:
        name: The query's name in Spark, and in what is printed.
        source: Where rows come from.
        sink: Where they go.
        steps: What happens in between, in this order.
        tables: Further sources, read whole, that SQL steps may join with, by their names.
        conf: Configuration of the Spark session, by Spark's names.
        master: Spark's master, where none is given when it is run; `local[*]` without.

    Raises:
        SpecError: Parts that do not go together.
    """

    name: str
    source: Source
    sink: Sink
    steps: tuple[Step, ...] = ()
    tables: Mapping[str, Source] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    master: str | None = None

    def __post_init__(self) -> None:
        sink = self.sink
        if self.source.bounded:
            for name, value in (("checkpoint", sink.checkpoint), ("trigger", sink.trigger)):
                if value is not None:
                    raise SpecError(f"sink.{name} belongs to a stream, and source.bounded is true")
            if sink.mode != "append":
                raise SpecError(f"sink.mode {sink.mode!r} belongs to a stream")
        elif sink.checkpoint is None and sink.format not in WITHOUT_CHECKPOINT:
            raise SpecError(
                "sink.checkpoint is missing: the folder where Spark keeps how far the pipeline"
                " came; without it a restart would begin anew"
            )
        if "records" in {name.lower() for name in self.tables}:
            raise SpecError(
                "tables.records: SQL steps have their own rows by that name; give it another one"
            )
        for table in self.tables.values():
            if table.bounded:
                raise SpecError("tables are always read whole: bounded says nothing there")
        if sink.mode == "append" and not self.source.bounded:
            for step in self.steps:
                if isinstance(step, Window) and step.watermark is None:
                    raise SpecError(
                        "a window without a watermark never ends, so in sink.mode append nothing"
                        " would be written: give it a watermark, or set sink.mode to update"
                    )

    @property
    def sources(self) -> tuple[Source, ...]:
        """Everything that it reads from."""
        return (self.source, *self.tables.values())

    @classmethod
    def parse(cls, mapping: Mapping[str, object]) -> Pipeline:
        """A pipeline out of what a specification's file holds.

        Raises:
            SpecError: Naming the place, and what is wrong there.
        """
        fields = Fields(mapping, "")
        kafka = {f"kafka.{name}": value for name, value in fields.options("kafka").items()}
        spark = Fields(fields.mapping("spark"), "spark")
        name = fields.text("name", "pipeline")
        fields.text_or_none("about")  # for its readers
        if "source" not in fields or "sink" not in fields:
            raise SpecError("a pipeline has a [source] and a [sink]")
        pipeline = cls(
            name=name,
            source=Source.parse(fields.mapping("source"), "source", kafka),
            steps=tuple(
                parse_step(step, f"steps[{number}]")
                for number, step in enumerate(fields.tables("steps"))
            ),
            sink=Sink.parse(fields.mapping("sink"), kafka),
            tables={
                table: Source.parse(source, f"tables.{table}", kafka)
                for table, source in fields.mapping("tables").items()
            },
            conf=spark.options("conf"),
            master=spark.text_or_none("master"),
        )
        spark.finish()
        fields.finish()
        return pipeline


def _with_kafka(name: str, kafka: Mapping[str, str], own: dict[str, str]) -> dict[str, str]:
    return {**kafka, **own} if name in KAFKA_FORMATS else own
