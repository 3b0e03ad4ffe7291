"""The options and columns of a write; needs neither Spark nor Java."""

from dataclasses import dataclass

import pytest

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.spark.write_options import WRITE_OPTIONS, RowLayout, WriteOptions

HEADERS = "array<struct<key:string,value:binary>>"
SERVER = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


@dataclass
class Type:
    name: str

    def simpleString(self) -> str:
        return self.name


@dataclass
class Field:
    name: str
    dataType: Type


@dataclass
class Schema:
    fields: list[Field]


def schema(**columns: str) -> Schema:
    return Schema([Field(name, Type(text)) for name, text in columns.items()])


def parse(
    options: dict[str, str] | None = None, *, streaming: bool = True, **columns: str
) -> WriteOptions:
    told = {**SERVER, "topic": "orders", **(options or {})}
    return WriteOptions.parse(told, schema(**(columns or {"value": "binary"})), streaming=streaming)


def test_every_column_is_found_by_its_name() -> None:
    columns = {"x": "date", "partition": "int", "topic": "string", "headers": HEADERS}
    found = RowLayout.of(schema(**columns, key="string", value="binary"), None)
    assert found == RowLayout(value=5, key=4, headers=3, partition=1, topic=2, constant_topic=None)


def test_a_string_may_have_a_collation() -> None:
    assert RowLayout.of(schema(value="string collate UNICODE"), "orders").value == 0


def test_a_value_is_enough() -> None:
    found = RowLayout.of(schema(value="string"), "orders")
    assert found == RowLayout(
        value=0, key=None, headers=None, partition=None, topic=None, constant_topic="orders"
    )


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"key": "binary"}, "Required attribute 'value' not found"),
        ({"value": "int"}, "value attribute type must be a string or binary, not int"),
        ({"value": "string", "key": "bigint"}, "key attribute type must be a string or binary"),
        ({"value": "string", "partition": "bigint"}, "partition attribute type must be a int"),
        ({"value": "string", "headers": "array<string>"}, "headers attribute type must be a array"),
    ],
)
def test_columns_that_are_refused(columns: dict[str, str], words: str) -> None:
    with pytest.raises(KafkaConfigurationError, match=words):
        RowLayout.of(schema(**columns), "orders")


def test_a_column_topic_matters_only_without_the_option() -> None:
    columns = schema(value="string", topic="struct<name:string>")
    with pytest.raises(KafkaConfigurationError, match="topic attribute type must be a string"):
        RowLayout.of(columns, None)
    assert RowLayout.of(columns, "orders").only_topic == "orders"


def test_a_topic_is_required() -> None:
    with pytest.raises(KafkaConfigurationError, match="topic option required when no 'topic'"):
        WriteOptions.parse(SERVER, schema(value="binary"), streaming=False)
    with pytest.raises(KafkaConfigurationError, match="Option 'topic' must not be empty"):
        parse({"topic": ""})


def test_at_least_once_is_the_default() -> None:
    found = parse()
    assert not found.exactly_once
    assert found.producer["bootstrap_servers"]
    assert "transaction_timeout_ms" not in found.producer


def test_exactly_once_and_its_names() -> None:
    found = parse({"deliveryguarantee": "Exactly_Once", "transactionalidprefix": "till"})
    assert found.exactly_once
    assert found.prefix == "till"
    assert found.producer["transaction_timeout_ms"] == 300_000
    named = parse({"deliveryGuarantee": "exactly_once", "writeId": "monday"}, streaming=False)
    assert named.write_id == "monday"


def test_producer_options_override_the_defaults() -> None:
    found = parse({"kafka.batch.size": "4096", "kafka.linger.ms": "50"})
    assert found.producer["max_batch_size"] == 4096
    assert found.producer["linger_ms"] == 50


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"deliveryguarantee": "at_most_once"}, "Option 'deliveryGuarantee' must be"),
        (
            {"transactionalidprefix": "x"},
            "Option 'transactionalIdPrefix' requires deliveryGuarantee",
        ),
        ({"writeid": "x"}, "Option 'writeId' requires deliveryGuarantee"),
        (
            {"deliveryguarantee": "exactly_once", "writeid": "x"},
            "Option 'writeId' is for batch writes",
        ),
        ({"deliveryguarantee": "exactly_once", "transactionalidprefix": ""}, "not be empty"),
        ({"kafka.transactional.id": "x"}, "each task needs its own transactional id"),
        ({"topic": " "}, "Option 'topic' must not be empty"),
        ({"topik": "x"}, "did you mean topic?"),
        ({"deliverygarantee": "exactly_once"}, "did you mean deliveryGuarantee?"),
        ({"kafka.no.such.thing": "x"}, "no.such.thing"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(KafkaConfigurationError, match=words):
        parse(options)


def test_repr_contains_no_password() -> None:
    jaas = 'x.PlainLoginModule required username="u" password="hush";'
    found = parse(
        {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": jaas,
        }
    )
    assert found.producer["sasl_plain_password"] == "hush"
    assert "hush" not in repr(found)


def test_spaces_around_the_topic_are_removed() -> None:
    assert parse({"topic": " orders "}).layout.constant_topic == "orders"


def test_options_added_by_spark_are_accepted() -> None:
    assert parse({"checkpointLocation": "/tmp/x", "path": "y", "queryName": "z"}).layout.value == 0


def test_every_option_is_documented() -> None:
    assert all(text.endswith(".") for text in WRITE_OPTIONS.values())
