"""An impossible response closes the connection with a clear error; every record is read once, in
order, also if reading continues after that error."""

import asyncio
import logging

import pytest

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.lies import LIES, NEEDS_PATIENCE

pytestmark = pytest.mark.unhurried

ASKED = [ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.API_VERSIONS]
VALUES = [b"%d" % number for number in range(20)]
CASES = [
    (api_key, lie)
    for api_key in ASKED
    for lie in LIES
    # A handshake that never ends has its own timeout, ten seconds: too long here.
    if api_key != ApiKey.API_VERSIONS or lie not in NEEDS_PATIENCE
]


@pytest.mark.parametrize(("api_key", "lie"), CASES, ids=lambda case: getattr(case, "name", case))
async def test_nothing_is_lost(
    api_key: ApiKey,
    lie: str,
    cluster: FakeCluster,
    make: MakeConsumer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "aiokafka_lite.net")
    for value in VALUES:
        cluster.produce("orders", value, partition=0)
    consumer = make(request_timeout_ms=500 if lie in NEEDS_PATIENCE else 5000)
    await consumer.start()
    fault = cluster.control(api_key, after_handling=True, tamper=LIES[lie])
    consumer.subscribe(["orders"])
    read: list[bytes | None] = []
    errors: list[KafkaProtocolError] = []
    async with asyncio.timeout(10):
        while len(read) < len(VALUES):
            try:
                read.append((await anext(consumer)).value)
            except KafkaProtocolError as error:
                errors.append(error)
    assert fault.hits == 1
    assert any(
        "closing the connection to " in said and "Error: " in said for said in caplog.messages
    )
    assert read == VALUES
    assert len({str(error) for error in errors}) <= 1  # once for each partition that waited for it


@pytest.mark.parametrize("lie", LIES)
async def test_a_position_is_validated_despite_an_impossible_reply(
    lie: str, cluster: FakeCluster, make: MakeConsumer
) -> None:
    for value in VALUES[:5]:
        cluster.produce("orders", value, partition=0)
    consumer = make(request_timeout_ms=500 if lie in NEEDS_PATIENCE else 5000)
    await consumer.start()
    consumer.assign([TopicPartition("orders", 0)])
    async with asyncio.timeout(10):
        read = [(await anext(consumer)).value for _ in range(5)]
        fault = cluster.control(
            ApiKey.OFFSET_FOR_LEADER_EPOCH, after_handling=True, tamper=LIES[lie]
        )
        cluster.move_leader("orders", 0, 0)
        for value in VALUES[5:]:
            cluster.produce("orders", value, partition=0)
        errors: list[KafkaProtocolError] = []
        while len(read) < len(VALUES):
            try:
                read.append((await anext(consumer)).value)
            except KafkaProtocolError as error:
                errors.append(error)
    assert fault.hits == 1
    assert read == VALUES
    assert len(errors) <= 1
