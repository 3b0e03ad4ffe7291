"""Every error code of Kafka in response to each request of the producer: it reacts like Java's.

Source: Sender.completeBatch, TransactionManager (canRetry, maybeTransitionToErrorState,
InitProducerIdHandler), Metadata and NetworkClient of Kafka's Java client. The table states intended
differences.
"""

import asyncio
from typing import Any

import pytest

from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.producer.producer import AIOKafkaProducer
from aiokafka_lite.protocol.messages.metadata import MetadataResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing import FakeCluster
from tests.unit.error_table import METADATA_IS_OLD, PASSES, assert_reactions, reactions

pytestmark = pytest.mark.unhurried

PLAIN = reactions(retry=PASSES, refresh=METADATA_IS_OLD, otherwise="fail")

IDEMPOTENT = reactions(
    retry=PASSES,
    refresh=METADATA_IS_OLD,
    stored="DUPLICATE_SEQUENCE_NUMBER",
    renumber="OUT_OF_ORDER_SEQUENCE_NUMBER UNKNOWN_PRODUCER_ID",
    # Java fails the batch; here it is certain that it was not stored, so it is sent with another
    # id.
    renew="INVALID_PRODUCER_EPOCH",
    fatal="""
        CLUSTER_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED PRODUCER_FENCED
        UNSUPPORTED_VERSION INVALID_PRODUCER_ID_MAPPING
    """,
    otherwise="fail",
)

# Authentication may fail during a rotation; for Java's producer, these errors are then fatal.
ROTATION = "UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE SASL_AUTHENTICATION_FAILED"

INIT_PRODUCER_ID = reactions(retry=f"{PASSES} {METADATA_IS_OLD} {ROTATION}", otherwise="fatal")

NO_ID_TO_BE_HAD = {ClusterAuthorizationFailedError.errno, UnsupportedVersionError.errno}

TOPIC = reactions(fail="INVALID_TOPIC_EXCEPTION TOPIC_AUTHORIZATION_FAILED", otherwise="retry")

ANY_CODE = reactions(otherwise="retry")

API_VERSIONS = reactions(otherwise="retry")
del API_VERSIONS[UnsupportedVersionError.errno]  # answered in version 0, with supported versions


def producer_of(cluster: FakeCluster, **options: object) -> AIOKafkaProducer:
    defaults: dict[str, object] = {"retry_backoff_ms": 1, "max_block_ms": 5000}
    return AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        **{**defaults, **options},  # type: ignore[arg-type]  # by name
    )


async def outcome(producer: AIOKafkaProducer, code: int) -> str:
    """The outcome of a record, and then of the next one."""
    async with asyncio.timeout(5):
        try:
            return str((await producer.send_and_wait("orders", b"v")).offset)
        except KafkaError as error:
            raised = [error]
        try:
            await producer.send_and_wait("orders", b"v")
        except KafkaError as error:
            raised.append(error)
    assert {type(error) for error in raised} == {for_code(code)}
    return "fatal" if raised[1:] else "fail"


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
async def test_every_error_of_produce(idempotent: bool) -> None:
    async def reaction_to(code: int) -> str:
        async with (
            FakeCluster(topics=["orders"]) as cluster,
            producer_of(cluster, enable_idempotence=idempotent) as producer,
        ):
            await producer.send_and_wait("orders", b"first")
            refreshes = []
            request_update = producer._cluster.request_update
            producer._cluster.request_update = lambda: refreshes.append(code) or request_update()
            cluster.control(ApiKey.PRODUCE, error=code)
            found = await outcome(producer, code)
            if found == "-1":
                return "stored"
            if found != "1":
                return found
            header = BatchHeader.read(bytes(cluster.partition("orders", 0).log.read(1, 2**20)))
            if cluster.count(ApiKey.INIT_PRODUCER_ID) > idempotent:
                return "renew"
            if header.producer_epoch > 0:
                return "renumber"
            return "refresh" if refreshes else "retry"

    await assert_reactions(IDEMPOTENT if idempotent else PLAIN, reaction_to)


@pytest.mark.parametrize("required", [True, False], ids=["asked_for", "by_default"])
async def test_every_error_of_init_producer_id(required: bool) -> None:
    async def reaction_to(code: int) -> str:
        async with FakeCluster(topics=["orders"]) as cluster:
            cluster.control(ApiKey.INIT_PRODUCER_ID, error=code)
            options = {"enable_idempotence": True} if required else {}
            async with producer_of(cluster, **options) as producer:
                found = await outcome(producer, code)
            if found != "0":
                return found
            header = BatchHeader.read(bytes(cluster.partition("orders", 0).log.read(0, 2**20)))
            return "retry" if header.producer_id >= 0 else "without"

    table = dict(INIT_PRODUCER_ID)
    if not required:  # no id was requested, and none is available
        table |= dict.fromkeys(NO_ID_TO_BE_HAD, "without")
    await assert_reactions(table, reaction_to)


async def reaction_of_producer(api_key: ApiKey, code: int, **fault: Any) -> str:
    """A producer's reaction to one error response, before its first record."""
    async with FakeCluster(topics=["orders"]) as cluster, producer_of(cluster) as producer:
        struck = cluster.control(api_key, **fault)
        found = await outcome(producer, code)
        assert struck.hits == 1
        return "retry" if found == "0" else found


async def test_every_error_of_a_topics_metadata() -> None:
    async def reaction_to(code: int) -> str:
        where = [("orders", None)]
        return await reaction_of_producer(ApiKey.METADATA, code, error=code, partitions=where)

    await assert_reactions(TOPIC, reaction_to)


async def test_every_error_of_a_partitions_metadata() -> None:
    async def reaction_to(code: int) -> str:
        where = [("orders", 0)]
        return await reaction_of_producer(ApiKey.METADATA, code, error=code, partitions=where)

    await assert_reactions(ANY_CODE, reaction_to)


async def test_every_error_of_metadata_as_a_whole() -> None:
    async def reaction_to(code: int) -> str:
        def refuse(response: MetadataResponse) -> None:
            response.error_code = code  # Metadata v13

        return await reaction_of_producer(ApiKey.METADATA, code, edit=refuse)

    await assert_reactions(ANY_CODE, reaction_to)


async def test_every_error_of_api_versions() -> None:
    """It reconnects; only the connection of the start is left to the caller to retry."""

    async def reaction_to(code: int) -> str:
        return await reaction_of_producer(ApiKey.API_VERSIONS, code, error=code)

    await assert_reactions(API_VERSIONS, reaction_to)
