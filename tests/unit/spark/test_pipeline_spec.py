"""A pipeline's specification: its meaning, and the errors of invalid ones."""

from collections.abc import Mapping

import pytest

from aiokafka_lite.spark.pipeline import (
    Decode,
    Deduplicate,
    Encode,
    Pipeline,
    PythonFunction,
    Sink,
    Source,
    SpecError,
    Sql,
    Window,
)

SOURCE = {"format": "rate"}
SINK = {"format": "console"}


def parsed(**parts: object) -> Pipeline:
    return Pipeline.parse({"source": SOURCE, "sink": SINK, **parts})


def refusal(**parts: object) -> str:
    with pytest.raises(SpecError) as caught:
        parsed(**parts)
    return str(caught.value)


def test_a_complete_specification():
    pipeline = Pipeline.parse(
        {
            "name": "orders",
            "about": "for whoever reads it",
            "kafka": {"bootstrap": {"servers": "k:9092"}, "security": {"protocol": "SSL"}},
            "source": {
                "format": "kafka_lite",
                "options": {"subscribe": ["a", "b"], "maxOffsetsPerTrigger": 10, "x": True},
            },
            "steps": [
                {"decode": "json", "schema": "a INT", "keep": "key", "on_error": "drop"},
                {"sql": "SELECT * FROM records"},
                {"python": "my.steps:enrich", "arguments": {"limit": 3}},
                {"deduplicate": ["id"], "time": "at", "watermark": "1 hour"},
                {
                    "window": "1 minute",
                    "slide": "30 seconds",
                    "time": "at",
                    "watermark": "1 minute",
                    "by": ["item"],
                    "aggregates": {"n": "count(*)"},
                },
                {"encode": "json", "key": "item", "headers": "h"},
            ],
            "tables": {"items": {"format": "parquet", "options": {"path": "/items"}}},
            "sink": {
                "format": "kafka_lite",
                "options": {"topic": "out", "kafka": {"security": {"protocol": "PLAINTEXT"}}},
                "checkpoint": "/c",
                "trigger": "10 seconds",
            },
            "spark": {"master": "local[2]", "conf": {"spark": {"sql": {"x": 4}}}},
        }
    )
    kafka = {"kafka.bootstrap.servers": "k:9092", "kafka.security.protocol": "SSL"}
    assert pipeline == Pipeline(
        name="orders",
        source=Source(
            "kafka_lite", {**kafka, "subscribe": "a,b", "maxOffsetsPerTrigger": "10", "x": "true"}
        ),
        steps=(
            Decode("json", "a INT", keep=("key",), on_error="drop"),
            Sql("SELECT * FROM records"),
            PythonFunction("my.steps:enrich", {"limit": 3}),
            Deduplicate(("id",), "at", "1 hour"),
            Window(
                length="1 minute",
                slide="30 seconds",
                time="at",
                watermark="1 minute",
                by=("item",),
                aggregates={"n": "count(*)"},
            ),
            Encode("json", key="item", headers="h"),
        ),
        sink=Sink(
            "kafka_lite",
            {**kafka, "kafka.security.protocol": "PLAINTEXT", "topic": "out"},
            checkpoint="/c",
            trigger="10 seconds",
        ),
        tables={"items": Source("parquet", {"path": "/items"})},
        conf={"spark.sql.x": "4"},
        master="local[2]",
    )


def test_a_minimal_specification():
    pipeline = parsed()
    assert (pipeline.name, pipeline.steps, pipeline.master) == ("pipeline", (), None)
    assert not pipeline.sink.exactly_once


def test_only_kafkas_formats_get_kafkas_options():
    pipeline = parsed(kafka={"bootstrap.servers": "k:1"})
    assert pipeline.source.options == {}


@pytest.mark.parametrize("value", ["exactly_once", "EXACTLY_ONCE"])
def test_exactly_once_follows_the_sinks_options(value: str):
    assert Sink("kafka_lite", {"deliveryGuarantee": value}, checkpoint="/c").exactly_once


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"sinks": {}}, "sinks is unknown (did you mean sink?)"),
        ({"source": {"format": "rate", "option": {}}}, "source.option is unknown (did you"),
        ({"source": {}}, "source.format is missing"),
        ({"source": {"format": 3}}, "source.format must be a non-empty string"),
        ({"source": {"format": " "}}, "source.format must be a non-empty string"),
        ({"source": "rate"}, "source must be a table"),
        ({"source": {"format": "rate", "bounded": "yes"}}, "source.bounded must be true or false"),
        (
            {"source": {"format": "rate", "options": {"a": {"b": [1]}}}},
            "source.options.a.b must be a",
        ),
        ({"sink": {"format": "console", "mode": "apend"}}, "did you mean append?"),
        ({"sink": {"format": "parquet"}}, "sink.checkpoint is missing"),
        (
            {"sink": {"format": "console", "partition_by": [1]}},
            "sink.partition_by must be a list of s",
        ),
        ({"spark": {"conf": 3}}, "spark.conf must be a table"),
        ({"spark": {"mastr": "x"}}, "spark.mastr is unknown (did you mean master?)"),
        ({"steps": {"sql": "x"}}, "steps must be a list of tables"),
        ({"steps": [{"sq": "x"}]}, "steps[0] must have exactly one of sql, python"),
        ({"steps": [{"sql": "x", "python": "a:b"}]}, "it has sql and python"),
        ({"steps": [{"sql": "x"}, {"sql": ""}]}, "steps[1].sql must be a non-empty"),
        (
            {"steps": [{"python": "no_function"}]},
            "steps[0]: python must be package.module:function",
        ),
        (
            {"steps": [{"decode": "avro", "schema": "a INT"}]},
            "steps[0].decode must be one of json, csv",
        ),
        ({"steps": [{"decode": "json"}]}, "steps[0].schema is missing"),
        (
            {"steps": [{"window": "1 minute", "time": "t"}]},
            "steps[0]: a window requires aggregates",
        ),
        ({"steps": [{"encode": "json", "kee": "x"}]}, "steps[0].kee is unknown (did you me"),
        (
            {"source": {"format": "rate", "bounded": True}, "sink": {**SINK, "checkpoint": "/c"}},
            "sink.checkpoint requires a stream",
        ),
        (
            {"source": {"format": "rate", "bounded": True}, "sink": {**SINK, "mode": "update"}},
            "sink.mode 'update' requires a stream",
        ),
        ({"tables": {"t": {"format": "csv", "bounded": True}}}, "bounded cannot be set for tables"),
        ({"tables": {"Records": {"format": "csv"}}}, "in SQL steps, `records` is the step's input"),
    ],
)
def test_errors_name_their_place(parts: Mapping[str, object], words: str):
    assert words in refusal(**parts)


@pytest.mark.parametrize(
    "parts",
    [
        {"kafka": [{"sasl.jaas.config": "hush"}]},
        {"kafka": "hush"},
        {"kafka": {"ssl.key.password": ["hush", 1]}},
        {"source": [{"format": "kafka_lite", "options": {"password": "hush"}}]},
        {"steps": {"arguments": {"password": "hush"}}},
    ],
)
def test_errors_do_not_contain_the_contents_of_tables(parts: Mapping[str, object]):
    assert "hush" not in refusal(**parts)


def test_repr_contains_no_options():
    pipeline = parsed(
        kafka={"ssl.key.password": "hush"},
        source={"format": "kafka_lite"},
        sink={"format": "kafka_lite", "checkpoint": "/c"},
        steps=[{"python": "a:b", "arguments": {"token": "hush"}}],
        tables={"t": {"format": "jdbc", "options": {"password": "hush"}}},
        spark={"conf": {"spark.hadoop.fs.s3a.secret.key": "hush"}},
    )
    assert pipeline.sink.options == {"kafka.ssl.key.password": "hush"}
    assert "hush" not in repr(pipeline)


def test_a_window_that_would_never_be_written_is_refused():
    window = {"window": "1 minute", "time": "t", "aggregates": {"n": "count(*)"}}
    assert "set a watermark" in refusal(steps=[window])
    assert parsed(steps=[window], sink={**SINK, "mode": "update"}).sink.mode == "update"
    assert parsed(steps=[window], source={**SOURCE, "bounded": True}).source.bounded


def test_a_window_has_a_length_and_a_session_a_gap():
    step = {"time": "t", "aggregates": {"n": "count(*)"}, "watermark": "1 minute"}
    assert parsed(steps=[{**step, "session": "5 minutes"}]).steps == (
        Window(gap="5 minutes", time="t", aggregates={"n": "count(*)"}, watermark="1 minute"),
    )
    both = {**step, "session": "5 minutes", "window": "1 minute"}
    assert "it has window and session" in refusal(steps=[both])


def test_source_and_sink_are_required():
    with pytest.raises(SpecError, match=r"requires a \[source\] and a \[sink\]"):
        Pipeline.parse({"source": SOURCE})
