"""Arrow batches to records, on the embedded cluster, without Spark and Java."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from zlib import crc32

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import IllegalArgumentError, MessageSizeTooLargeError
from aiokafka_lite.spark.write_options import RowLayout
from aiokafka_lite.testing import FakeCluster

pa = pytest.importorskip("pyarrow", reason="the spark extra is not installed")
pytest.importorskip("numpy", reason="the spark extra is not installed")
rows = pytest.importorskip("aiokafka_lite.spark.sink.rows")

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
VALUE_ONLY = RowLayout(
    value=0, key=None, headers=None, partition=None, topic=None, constant_topic="orders"
)
EVERYTHING = RowLayout(value=0, key=1, headers=2, partition=3, topic=4, constant_topic=None)


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"orders": 3, "bills": 1}) as cluster:
        yield cluster


@pytest.fixture
async def producer(cluster: FakeCluster) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, max_block_ms=2000
    ) as producer:
        yield producer


async def stored(cluster: FakeCluster, topic: str, partitions: int) -> list[Any]:
    places = [TopicPartition(topic, number) for number in range(partitions)]
    found: list[Any] = []
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(places)
        async with asyncio.timeout(20):
            ends = await consumer.end_offsets(places)
            while any([await consumer.position(each) < ends[each] for each in places]):
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    found += records
    return found


def values(*given: Any, type: Any = None) -> Any:
    return pa.record_batch([pa.array(given, type or pa.binary())], names=["value"])


@pytest.mark.parametrize(
    "type", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()], ids=str
)
async def test_values_of_each_type(
    cluster: FakeCluster, producer: AIOKafkaProducer, type: Any
) -> None:
    sender = rows.RowSender(producer, VALUE_ONLY)
    given = ["a", None, "", "ü"]
    if not pa.types.is_string(type) and not pa.types.is_large_string(type):
        given = [None if each is None else each.encode() for each in given]  # type: ignore[misc]
    await sender.append(values(*given, type=type))
    await sender.finish()
    assert sender.rows == 4
    found = [record.value for record in await stored(cluster, "orders", 3)]
    assert sorted(found, key=repr) == sorted([b"a", None, b"", "ü".encode()], key=repr)


async def test_a_slice_of_a_batch(cluster: FakeCluster, producer: AIOKafkaProducer) -> None:
    sender = rows.RowSender(producer, VALUE_ONLY)
    await sender.append(values(*[b"%d" % n for n in range(10)]).slice(3, 4))
    await sender.finish()
    found = [record.value for record in await stored(cluster, "orders", 3)]
    assert found == [b"3", b"4", b"5", b"6"]


async def test_every_column(cluster: FakeCluster, producer: AIOKafkaProducer) -> None:
    batch = pa.record_batch(
        [
            pa.array([b"1", b"2", None], pa.binary()),
            pa.array(["k1", None, "k3"], pa.string()),
            pa.array(
                [[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None, []], HEADERS
            ),
            pa.array([2, None, 0], pa.int32()),
            pa.array(["orders", "bills", "orders"], pa.string()),
        ],
        names=["value", "key", "headers", "partition", "topic"],
    )
    sender = rows.RowSender(producer, EVERYTHING)
    await sender.append(batch)
    await sender.finish()
    orders = {record.partition: record for record in await stored(cluster, "orders", 3)}
    assert (orders[2].key, orders[2].value) == (b"k1", b"1")
    assert orders[2].headers == (("h", b"x"), ("h", None))
    assert (orders[0].key, orders[0].value, orders[0].headers) == (b"k3", None, ())
    (bill,) = await stored(cluster, "bills", 1)
    assert (bill.key, bill.value) == (None, b"2")
    assert rows.topic_of(batch, EVERYTHING) == "orders"


async def test_an_empty_batch(producer: AIOKafkaProducer) -> None:
    for layout, batch in ((VALUE_ONLY, values()), (EVERYTHING, values())):
        if layout is EVERYTHING:
            types = (pa.binary(), pa.string(), HEADERS, pa.int32(), pa.string())
            names = ("value", "key", "headers", "partition", "topic")
            batch = pa.record_batch([pa.array([], each) for each in types], names=names)
        sender = rows.RowSender(producer, layout)
        await sender.append(batch)
        await sender.finish()
        assert sender.rows == 0


async def test_a_row_without_a_topic(producer: AIOKafkaProducer) -> None:
    layout = RowLayout(
        value=0, key=None, headers=None, partition=None, topic=1, constant_topic=None
    )
    batch = pa.record_batch(
        [pa.array([b"1"], pa.binary()), pa.array([None], pa.string())], names=["value", "topic"]
    )
    with pytest.raises(IllegalArgumentError, match="null topic present in the data"):
        await rows.RowSender(producer, layout).append(batch)


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"x"}], ids=["none", "nameless"])
async def test_a_header_without_a_name(
    producer: AIOKafkaProducer, header: dict[str, object] | None
) -> None:
    layout = RowLayout(
        value=0, key=None, headers=1, partition=None, topic=None, constant_topic="orders"
    )
    columns = [pa.array([b"1"], pa.binary()), pa.array([[header]], HEADERS)]
    batch = pa.record_batch(columns, names=["value", "headers"])
    with pytest.raises(IllegalArgumentError, match="null header or null header key"):
        await rows.RowSender(producer, layout).append(batch)


async def test_an_unknown_partition_is_an_error(producer: AIOKafkaProducer) -> None:
    layout = RowLayout(
        value=0, key=None, headers=None, partition=1, topic=None, constant_topic="orders"
    )
    batch = pa.record_batch(
        [pa.array([b"1"], pa.binary()), pa.array([9], pa.int32())], names=["value", "partition"]
    )
    with pytest.raises(IllegalArgumentError, match="Unrecognized partition 9"):
        await rows.RowSender(producer, layout).append(batch)


async def test_a_row_that_is_too_large(producer: AIOKafkaProducer) -> None:
    with pytest.raises(MessageSizeTooLargeError):
        await rows.RowSender(producer, VALUE_ONLY).append(values(bytes(2_000_000)))


async def test_broker_errors_are_raised(cluster: FakeCluster, producer: AIOKafkaProducer) -> None:
    cluster.create_topic("narrow", 1, configs={"max.message.bytes": "1000"})
    layout = RowLayout(
        value=0, key=None, headers=None, partition=None, topic=None, constant_topic="narrow"
    )
    sender = rows.RowSender(producer, layout)
    await sender.append(values(b"fits", bytes(5_000), b"fits"))
    with pytest.raises(MessageSizeTooLargeError, match="the broker rejected a record"):
        await asyncio.wait_for(sender.finish(), 20)


async def test_the_number_of_unacknowledged_rows_is_bounded(
    cluster: FakeCluster, producer: AIOKafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_UNSETTLED", 1_000)
    sender = rows.RowSender(producer, VALUE_ONLY)
    for start in range(0, 6_000, 600):
        await sender.append(values(*[b"%d" % n for n in range(start, start + 600)]))
        assert sender._unsettled <= 1_000
    await sender.finish()
    assert sender._unsettled == 0
    found = {int(record.value) for record in await stored(cluster, "orders", 3)}
    assert found == set(range(6_000))


def test_a_digest_is_independent_of_the_order() -> None:
    layout = RowLayout(
        value=0, key=1, headers=None, partition=None, topic=None, constant_topic="orders"
    )

    def digest(*pairs: tuple[bytes | None, bytes | None]) -> tuple[int, int]:
        found = rows.RowDigest()
        columns = [pa.array(list(each), pa.binary()) for each in zip(*pairs, strict=True)]
        found.add_batch(pa.record_batch(columns, names=["value", "key"]), layout)
        return found.rows, found.sum

    first = digest((b"1", b"a"), (b"2", None), (None, b"c"))
    assert digest((None, b"c"), (b"1", b"a"), (b"2", None)) == first
    assert digest((b"1", b"a"), (b"2", None), (b"3", b"c")) != first
    assert digest((b"a", b"1"), (b"2", None), (None, b"c")) != first


def digest_of(layout: RowLayout, *given: dict[str, Any], version: int = 2) -> tuple[int, int]:
    """Rows with the columns of EVERYTHING."""
    types = {
        "value": pa.binary(),
        "key": pa.binary(),
        "headers": HEADERS,
        "partition": pa.int32(),
        "topic": pa.string(),
    }
    arrays = [pa.array([row.get(name) for row in given], each) for name, each in types.items()]
    found = rows.RowDigest(version)
    found.add_batch(pa.record_batch(arrays, names=list(types)), layout)
    return found.rows, found.sum


ROW = {
    "value": b"v",
    "key": b"k",
    "headers": [{"key": "h", "value": b"x"}],
    "partition": 1,
    "topic": "orders",
}
OTHER = {"value": b"w", "topic": "orders"}


@pytest.mark.parametrize(
    "change",
    [
        {"value": b"u"},
        {"value": b""},
        {"value": None},
        {"key": b"l"},
        {"key": b""},
        {"key": None},
        {"topic": "bills"},
        {"partition": 0},
        {"partition": None},
        {"headers": None},
        {"headers": [{"key": "h", "value": None}]},
        {"headers": [{"key": "h", "value": b"x"}] * 2},
        {"headers": [{"key": "g", "value": b"x"}]},
    ],
    ids=str,
)
def test_a_digest_covers_every_column(change: dict[str, Any]) -> None:
    assert digest_of(EVERYTHING, {**ROW, **change}, OTHER) != digest_of(EVERYTHING, ROW, OTHER)


def test_rows_that_swap_their_topics_have_another_digest() -> None:
    one, other = {"value": b"1", "topic": "orders"}, {"value": b"2", "topic": "bills"}
    swapped = [{**one, "topic": "bills"}, {**other, "topic": "orders"}]
    assert digest_of(EVERYTHING, *swapped) != digest_of(EVERYTHING, one, other)


def test_a_digest_does_not_depend_on_where_the_topic_is_named() -> None:
    """Topics as a column or as the option, with columns of nulls or without them."""
    given = [{**OTHER, "key": b"k"}, OTHER, {"topic": "orders"}]
    by_option = RowLayout(
        value=0, key=1, headers=None, partition=None, topic=None, constant_topic="orders"
    )
    with_nulls = RowLayout(
        value=0, key=1, headers=2, partition=3, topic=None, constant_topic="orders"
    )
    assert digest_of(by_option, *given) == digest_of(EVERYTHING, *given)
    assert digest_of(with_nulls, *given) == digest_of(EVERYTHING, *given)
    without_key = digest_of(VALUE_ONLY, OTHER, {"topic": "orders"})
    assert without_key == digest_of(EVERYTHING, OTHER, {"topic": "orders"})


def test_the_digest_of_layout_1() -> None:
    expected = crc32(b"v", crc32(b"k") + 1) + crc32(b"w", crc32(b"") + 1)
    assert digest_of(EVERYTHING, ROW, OTHER, version=1) == (2, expected)
    assert digest_of(VALUE_ONLY, ROW, OTHER, version=1) == (2, crc32(b"v") + crc32(b"w"))


async def test_a_sender_counts_the_digest_of_the_rows_it_sends(
    producer: AIOKafkaProducer,
) -> None:
    for layout in (VALUE_ONLY, EVERYTHING):
        arrays = [
            pa.array([b"v", None], pa.binary()),
            pa.array([b"k", None], pa.binary()),
            pa.array([ROW["headers"], None], HEADERS),
            pa.array([1, None], pa.int32()),
            pa.array(["orders", "bills"], pa.string()),
        ]
        batch = pa.record_batch(arrays, names=["value", "key", "headers", "partition", "topic"])
        counted, again = rows.RowDigest(), rows.RowDigest()
        sender = rows.RowSender(producer, layout, counted)
        await sender.append(batch)
        await sender.finish()
        again.add_batch(batch, layout)
        assert (counted.rows, counted.sum) == (again.rows, again.sum) != (0, 0)
