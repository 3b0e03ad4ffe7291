"""Invalid arguments, and calls at the wrong time, are rejected at once with their names."""

import asyncio
import ssl
from typing import Any

import pytest

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import (
    ConsumerStoppedError,
    IllegalStateError,
    InvalidTopicError,
    KafkaConnectionError,
)
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.conftest import MakeConsumer

pytestmark = pytest.mark.unhurried

TP = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("bootstrap_servers", [5, None, b"a:1", ["a:1", 7]], TypeError),
        ("fetch_max_wait_ms", [float("inf"), 10**12, float("nan")], ValueError),
        ("fetch_min_bytes", [2**31], ValueError),
        ("fetch_max_bytes", [2**31], ValueError),
        ("max_partition_fetch_bytes", [2**31], ValueError),
        ("client_rack", [5], TypeError),
        ("client_rack", ["\ud800"], ValueError),
        ("request_timeout_ms", [10**12], ValueError),
        ("metadata_max_age_ms", [-5, float("nan")], ValueError),
        ("metadata_max_age_ms", ["x", None], TypeError),
        ("connections_max_idle_ms", ["x"], TypeError),
        ("connections_max_idle_ms", [-1], ValueError),
        ("key_deserializer", [5], TypeError),
        ("value_deserializer", [5], TypeError),
        ("check_crcs", ["x"], TypeError),
        ("enable_auto_commit", ["x"], TypeError),
        ("exclude_internal_topics", [7], TypeError),
        ("allow_auto_create_topics", [5], TypeError),
        ("partition_assignment_strategy", [5], TypeError),
        ("rebalance_timeout_ms", ["x"], TypeError),
        ("session_timeout_ms", [None], TypeError),
        ("api_version", [5], TypeError),
        ("api_version", ["newest"], ValueError),
        ("client_id", ["\ud800", "x" * 32768], ValueError),
        ("client_id", [5], TypeError),
        ("loop", [5], TypeError),
        ("ssl_context", [5], TypeError),
        ("security_protocol", [5], TypeError),
        ("sasl_mechanism", ["MAGIC", 5], ValueError),
        ("sasl_plain_password", [b"p"], TypeError),
        ("sasl_plain_username", [5], TypeError),
    ],
)
async def test_options(name: str, values: list[Any], kind: type[Exception]) -> None:
    for value in values:
        with pytest.raises(kind, match=f"`{name}`"):
            AIOKafkaConsumer(**{name: value})


async def test_large_options_that_make_sense() -> None:
    consumer = AIOKafkaConsumer(
        fetch_max_bytes=2**31 - 1, max_partition_fetch_bytes=2**31 - 1, buffer_memory=2**40
    )
    await consumer.stop()


async def test_security_in_aiokafka_s_words() -> None:
    with pytest.raises(ValueError, match="required for PLAIN sasl"):
        AIOKafkaConsumer(security_protocol="SASL_SSL")
    with pytest.raises(ValueError, match="required for SCRAM-SHA-256 sasl"):
        AIOKafkaConsumer(
            security_protocol="SASL_SSL",
            ssl_context=ssl.create_default_context(),
            sasl_mechanism="SCRAM-SHA-256",
        )


@pytest.mark.parametrize("name", ["\ud800", "y" * 70000])
async def test_topics_that_cannot_be_said(make: MakeConsumer, name: str) -> None:
    consumer = make()
    with pytest.raises(InvalidTopicError):
        make(name)
    with pytest.raises(InvalidTopicError):
        consumer.subscribe([name])
    with pytest.raises(InvalidTopicError):
        consumer.assign([TopicPartition(name, 0)])
    with pytest.raises(TypeError):
        consumer.subscribe(["orders", 5])  # type: ignore[list-item]  # on purpose
    consumer.assign([TP])
    await consumer.start()
    with pytest.raises(InvalidTopicError):
        await consumer.end_offsets([TopicPartition(name, 0)])
    assert await consumer.end_offsets([TP]) == {TP: 0}


async def test_partitions_and_offsets_that_cannot_be(make: MakeConsumer) -> None:
    consumer = make()
    for number in (-1, 2**31):
        with pytest.raises(ValueError, match="`partition`"):
            consumer.assign([TopicPartition("orders", number)])
    for wrong in (5, None, TP, [("orders", "0")], [("orders", True)]):
        with pytest.raises(TypeError, match="TopicPartition"):
            consumer.assign(wrong)  # type: ignore[arg-type]  # on purpose
    consumer.assign([TP])
    await consumer.start()
    with pytest.raises(ValueError, match="at most 9223372036854775807"):
        consumer.seek(TP, 2**63)
    for offset in (1.0, "1", True, -1):
        with pytest.raises(ValueError, match="Offset must be a positive integer"):
            consumer.seek(TP, offset)  # type: ignore[arg-type]  # on purpose
        with pytest.raises(ValueError, match="Offset must be a positive integer"):
            consumer.seek(TP, OffsetAndMetadata(offset, ""))  # type: ignore[arg-type]  # on purpose
    consumer.seek(TP, OffsetAndMetadata(0, "", -1))  # for a record in an old message format
    for epoch in (-2, 2**31):
        with pytest.raises(ValueError, match="leader epoch"):
            consumer.seek(TP, OffsetAndMetadata(0, "", epoch))
    with pytest.raises(TypeError, match="leader epoch"):
        consumer.seek(TP, OffsetAndMetadata(0, "", "1"))  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ValueError, match="timestamps"):
        await consumer.offsets_for_times({TP: 2**63})
    for time in (10500.7, "1", True, None):
        with pytest.raises(TypeError, match="timestamps"):
            await consumer.offsets_for_times({TP: time})  # type: ignore[dict-item]  # on purpose
    with pytest.raises(TypeError, match="`timestamps` should be a dict"):
        await consumer.offsets_for_times([TP])  # type: ignore[arg-type]  # on purpose
    assert await consumer.offsets_for_times({TP: 2**63 - 1}) == {TP: None}


async def test_a_time_to_wait_that_is_none(make: MakeConsumer) -> None:
    consumer = make("orders")
    await consumer.start()
    for timeout in ("5", None):
        with pytest.raises(TypeError, match="`timeout_ms`"):
            await consumer.getmany(timeout_ms=timeout)  # type: ignore[arg-type]  # on purpose
    for timeout in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="`timeout_ms`"):
            await consumer.getmany(timeout_ms=timeout)
    assert await consumer.getmany(timeout_ms=-1) == {}


async def test_reading_before_the_start(make: MakeConsumer) -> None:
    consumer = make()
    consumer.assign([TP])
    async with asyncio.timeout(5):
        for read in (
            consumer.getone(),
            consumer.getone(TP),
            consumer.getmany(timeout_ms=60_000),
            consumer.position(TP),
            consumer.seek_to_end(),
            consumer.end_offsets([TP]),
            consumer.topics(),
        ):
            with pytest.raises(IllegalStateError, match="not started"):
                await read
        with pytest.raises(IllegalStateError, match="not started"):
            async for _ in consumer:
                pass
        await consumer.start()
        assert await consumer.position(TP) == 0, "nothing was harmed"


async def test_everything_after_the_stop(make: MakeConsumer) -> None:
    consumer = make("orders")
    await consumer.start()
    await consumer.stop()
    for call in (
        consumer.position(TP),
        consumer.end_offsets([TP]),
        consumer.beginning_offsets([TP]),
        consumer.offsets_for_times({TP: 1}),
        consumer.seek_to_end(),
        consumer.seek_to_beginning(TP),
        consumer.topics(),
        consumer.getone(),
        consumer.getmany(),
    ):
        with pytest.raises(ConsumerStoppedError):
            await call
    with pytest.raises(ConsumerStoppedError):
        consumer.assign([TP])
    with pytest.raises(ConsumerStoppedError):
        consumer.subscribe(["orders"])
    with pytest.raises(ConsumerStoppedError):
        consumer.seek(TP, 0)


async def test_calls_that_the_stop_ends(make: MakeConsumer, cluster: FakeCluster) -> None:
    consumer = make("orders", request_timeout_ms=30_000)
    await consumer.start()
    nowhere = TopicPartition("orders", 7)
    waiting = asyncio.create_task(consumer.end_offsets([nowhere]))
    await asyncio.sleep(0.05)
    await consumer.stop()
    with pytest.raises(ConsumerStoppedError):
        await asyncio.wait_for(waiting, 5)


async def test_a_failed_start_can_be_tried_again() -> None:
    consumer = AIOKafkaConsumer("orders", bootstrap_servers="127.0.0.1:1")
    for _ in range(2):
        with pytest.raises(KafkaConnectionError):
            await consumer.start()
        with pytest.raises(IllegalStateError, match="not started"):
            await consumer.getone()
    await consumer.stop()
