"""The specification of a pipeline: a source, steps and a sink, as plain data.

This module does not need Spark. `Pipeline.parse` reads the mapping in a TOML or YAML file; every
class can also be created directly, with the same names. `repr` omits options and configuration,
because they may contain passwords.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiokafka_lite.spark.pipeline.fields import Fields, SpecError
from aiokafka_lite.spark.pipeline.pipeline_steps import Step, Window, parse_step

__all__ = ["KAFKA_FORMATS", "Pipeline", "Sink", "Source", "SpecError"]

KAFKA_FORMATS = ("kafka_lite", "kafka")
"""Formats that receive the options of the specification's `[kafka]` table."""

OUTPUT_MODES = ("append", "update", "complete")
WITHOUT_CHECKPOINT = ("console", "memory", "noop")
"""Sinks for inspection: they store nothing, so a stream cannot resume from them."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of rows, in any format that Spark can read.

    Args:
        format: `kafka_lite`, `parquet`, `json`, `rate`, ...
        options: The format's options by Spark's names.
        schema: The columns as DDL (`id LONG, name STRING`), for file formats without a schema.
            Parquet files contain theirs.
        bounded: True to read the available rows as one batch and end; False for a stream.
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
    """The sink for rows, in any format that Spark can write.

    Args:
        format: `kafka_lite`, `parquet`, `console`, ...
        options: The format's options by Spark's names.
        mode: Spark's output mode: `append`, `update` or `complete`.
        checkpoint: The folder from which a stream resumes after it ended for any reason.
        trigger: Interval between two batches in Spark's notation (`10 seconds`),
            `available_now`, or None to start each batch immediately.
        partition_by: Columns that partition a file sink into folders.
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
        """True if the sink writes each row exactly once (`deliveryGuarantee`)."""
        return any(
            name.lower() == "deliveryguarantee" and value.lower() == "exactly_once"
            for name, value in self.options.items()
        )


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline that `aiokafka_lite.spark.pipeline.run` can run.

    Args:
        name: The query's name in Spark and in the output.
        source: The source of rows.
        sink: The sink for rows.
        steps: The steps between source and sink, in order.
        tables: Further sources by name, read as a whole, that SQL steps may join.
        conf: Configuration of the Spark session, by Spark's names.
        master: The default Spark master of a run; `local[*]` if not set.

    Raises:
        SpecError: Some parts contradict each other.
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
                    raise SpecError(f"sink.{name} requires a stream, but source.bounded is true")
            if sink.mode != "append":
                raise SpecError(
                    f"sink.mode {sink.mode!r} requires a stream, but source.bounded is true"
                )
        elif sink.checkpoint is None and sink.format not in WITHOUT_CHECKPOINT:
            raise SpecError(
                "sink.checkpoint is missing: Spark keeps the pipeline's position in this folder;"
                " without it, a restart would begin from scratch"
            )
        if "records" in {name.lower() for name in self.tables}:
            raise SpecError(
                "tables.records: choose another name; in SQL steps, `records` is the step's input"
            )
        for table in self.tables.values():
            if table.bounded:
                raise SpecError("bounded cannot be set for tables: they are always read completely")
        if sink.mode == "append" and not self.source.bounded:
            for step in self.steps:
                if isinstance(step, Window) and step.watermark is None:
                    raise SpecError(
                        "a window without a watermark never closes, so sink.mode append would write"
                        " nothing: set a watermark, or set sink.mode to update"
                    )

    @property
    def sources(self) -> tuple[Source, ...]:
        """The source and the tables."""
        return (self.source, *self.tables.values())

    @classmethod
    def parse(cls, mapping: Mapping[str, object]) -> Pipeline:
        """Create a pipeline from the contents of a specification file.

        Raises:
            SpecError: The specification is invalid; the message names the place and the problem.
        """
        fields = Fields(mapping, "")
        kafka = {f"kafka.{name}": value for name, value in fields.options("kafka").items()}
        spark = Fields(fields.mapping("spark"), "spark")
        name = fields.text("name", "pipeline")
        fields.text_or_none("about")  # for human readers only
        if "source" not in fields or "sink" not in fields:
            raise SpecError("a pipeline requires a [source] and a [sink]")
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
