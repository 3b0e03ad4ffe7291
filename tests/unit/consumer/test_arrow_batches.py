"""`batches(columns="arrow")` returns Arrow record batches, which other libraries read."""

import datetime
import sys
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer, errors
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

from .conftest import MakeConsumer
from .makers import append, append_batch, batch, numbered

pa = pytest.importorskip("pyarrow")

TP0 = TopicPartition("orders", 0)
T0 = 1_700_000_000_000


async def fill(cluster: FakeCluster, codec: str | None = None) -> list[dict[str, Any]]:
    """Store records, some without a key, value or headers; return them as rows."""
    rows: list[dict[str, Any]] = []
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, compression_type=codec, linger_ms=5
    )
    async with producer:
        for row in range(200):
            key = None if row % 3 == 0 else b"key %d" % row
            value = None if row % 7 == 0 else b"value %d " % row * (row % 5)
            headers = [("h", b"1"), ("ü", None)][: row % 3]
            await producer.send("orders", value, key, 0, T0 + row, headers or None)
            rows.append(
                {
                    "offset": row,
                    "timestamp": datetime.datetime.fromtimestamp(
                        (T0 + row) / 1000, tz=datetime.UTC
                    ),
                    "key": key,
                    "value": value,
                    "headers": [{"key": name, "value": text} for name, text in headers] or None,
                }
            )
    return rows


@pytest.mark.parametrize("codec", [None, "zstd"])
async def test_arrow_batches_contain_the_records(
    cluster: FakeCluster, make: MakeConsumer, codec: str | None
) -> None:
    rows = await fill(cluster, codec)
    found: list[dict[str, Any]] = []
    async with make("orders") as consumer, consumer.batches(columns="arrow") as batches:
        async for each in batches:
            each.record_batch.validate(full=True)
            assert len(each) == each.record_batch.num_rows == each.next_offset - each.start
            assert each.topic_partition == TP0
            assert await consumer.position(TP0) == each.next_offset
            assert "Arrow batch of" in repr(each)
            found += each.record_batch.to_pylist()
            if len(found) == len(rows):
                break
    assert found == rows


async def test_keys_and_values_are_not_copied(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, [bytes([65 + row]) * 1000 for row in range(100)])
    async with make("orders") as consumer, consumer.batches(columns=True) as batches:
        columns = (await anext(batches)).columns
    from aiokafka_lite.consumer.buffering.arrow_columns import to_arrow

    before = pa.total_allocated_bytes()
    found = to_arrow(columns)
    assert pa.total_allocated_bytes() - before < 10_000
    (data,) = found["value"].buffers()[2:]
    assert data.address == pa.py_buffer(columns.data).address
    del columns, data
    assert [value[:1] for value in found["value"].to_pylist()] == [
        bytes([65 + row]) for row in range(100)
    ]


async def test_batches_contain_the_rest_of_a_large_batch_after_getone(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    noise = [i.to_bytes(4, "big") * 50 + bytes([i % 251]) * 3 for i in range(30_000)]
    append_batch(cluster, batch(noise, compression=Compression.LZ4), "orders", 0)
    found: list[bytes | None] = []
    async with make("orders") as consumer:
        assert (await consumer.getone()).value == noise[0]
        async with consumer.batches(columns="arrow") as batches:
            async for each in batches:
                found += each.record_batch["value"].to_pylist()
                if len(found) == len(noise) - 1:
                    break
    assert found == noise[1:]


async def test_a_failed_batch_is_given_back(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(10))
    async with make("orders") as consumer:
        batches = consumer.batches(columns="arrow", max_records=4)
        await batches.__aenter__()
        await anext(batches)
        assert (await anext(batches)).start == 4
        error = RuntimeError("of the application")
        await batches.__aexit__(RuntimeError, error, None)
        assert await consumer.position(TP0) == 4


async def test_records_that_cannot_be_converted_are_given_back(
    cluster: FakeCluster, make: MakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(cluster, numbered(10))

    def fail(columns: object) -> None:
        raise MemoryError

    async with make("orders") as consumer, consumer.batches(columns="arrow") as batches:
        with monkeypatch.context() as patch:
            patch.setattr("aiokafka_lite.consumer.buffering.arrow_columns.to_arrow", fail)
            with pytest.raises(MemoryError):
                await anext(batches)
            assert await consumer.position(TP0) == 0
        assert (await anext(batches)).record_batch["value"].to_pylist() == numbered(10)


async def test_arguments_are_checked(make: MakeConsumer, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = make("orders")
    with pytest.raises((TypeError, ValueError), match="columns"):
        consumer.batches(columns="polars")  # type: ignore[call-overload]
    with pytest.raises(errors.KafkaConfigurationError, match="`columns='arrow'`"):
        make("orders", value_deserializer=int).batches(columns="arrow")
    monkeypatch.delitem(sys.modules, "aiokafka_lite.consumer.buffering.arrow_columns", False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="needs pyarrow"):
        consumer.batches(columns="arrow")


async def test_polars_reads_arrow_batches(cluster: FakeCluster, make: MakeConsumer) -> None:
    pl = pytest.importorskip("polars")
    rows = await fill(cluster)
    async with make("orders") as consumer, consumer.batches(columns="arrow") as batches:
        frame = pl.DataFrame(await anext(batches))
    assert frame["value"].to_list() == [row["value"] for row in rows]
    assert frame["timestamp"].to_list() == [row["timestamp"] for row in rows]
    assert frame["headers"].to_list() == [row["headers"] for row in rows]


async def test_duckdb_reads_arrow_batches(cluster: FakeCluster, make: MakeConsumer) -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = await fill(cluster)
    async with make("orders") as consumer, consumer.batches(columns="arrow") as batches:
        batch_ = (await anext(batches)).record_batch
    with duckdb.connect() as database:
        database.register("records", batch_)
        found = database.execute('SELECT "offset", key, value FROM records').fetchall()
    assert found == [(row["offset"], row["key"], row["value"]) for row in rows]


async def test_pandas_reads_arrow_batches(cluster: FakeCluster, make: MakeConsumer) -> None:
    pytest.importorskip("pandas")
    rows = await fill(cluster)
    async with make("orders") as consumer, consumer.batches(columns="arrow") as batches:
        frame = (await anext(batches)).record_batch.to_pandas()
    assert frame["value"].tolist() == [row["value"] for row in rows]
    assert frame["timestamp"].tolist() == [row["timestamp"] for row in rows]
