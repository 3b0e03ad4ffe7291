"""Every error code of Kafka in answer to each request of the producer: it does what Java's does.

Source: Sender.completeBatch, TransactionManager (canRetry, maybeTransitionToErrorState,
InitProducerIdHandler), Metadata and NetworkClient of Kafka's Java client. Where ours means to
differ, the table says so.
"""

import asyncio
from collections.abc import Mapping

import pytest

from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.producer.producer import AIOKafkaProducer
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing import FakeCluster
from tests.unit.error_table import METADATA_IS_OLD, PASSES, reactions

PLAIN = reactions(retry=PASSES, refresh=METADATA_IS_OLD, otherwise="fail")

IDEMPOTENT = reactions(
    retry=PASSES,
    refresh=METADATA_IS_OLD,
    stored="DUPLICATE_SEQUENCE_NUMBER",
    renumber="OUT_OF_ORDER_SEQUENCE_NUMBER UNKNOWN_PRODUCER_ID",
    # Java fails the batch; ours knows that it is not stored, and sends it under another id.
    renew="INVALID_PRODUCER_EPOCH",
    fatal="""
        CLUSTER_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED PRODUCER_FENCED
        UNSUPPORTED_VERSION INVALID_PRODUCER_ID_MAPPING
    """,
    otherwise="fail",
)

INIT_PRODUCER_ID = reactions(retry=f"{PASSES} {METADATA_IS_OLD}", otherwise="fatal")

NO_ID_TO_BE_HAD = {ClusterAuthorizationFailedError.errno, UnsupportedVersionError.errno}

TOPIC = reactions(fail="INVALID_TOPIC_EXCEPTION TOPIC_AUTHORIZATION_FAILED", otherwise="retry")

ANY_CODE = reactions(otherwise="retry")

API_VERSIONS = reactions(otherwise="retry")
del API_VERSIONS[UnsupportedVersionError.errno]  # told in version 0, with the versions that are


def every(table: Mapping[int, str]) -> pytest.MarkDecorator:
    """Runs a test for each code of a table."""
    cases = [
        pytest.param(code, reaction, id=for_code(code).message) for code, reaction in table.items()
    ]
    return pytest.mark.parametrize(("code", "reaction"), cases)


def producer_of(cluster: FakeCluster, **options: object) -> AIOKafkaProducer:
    defaults: dict[str, object] = {"retry_backoff_ms": 1, "max_block_ms": 5000}
    return AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        **{**defaults, **options},  # type: ignore[arg-type]  # by name
    )


async def outcome(producer: AIOKafkaProducer, code: int) -> str:
    """What becomes of a record, and then of the next one."""
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
@pytest.mark.parametrize("code", list(PLAIN), ids=lambda code: for_code(code).message)
async def test_produce(code: int, idempotent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        FakeCluster(topics=["orders"]) as cluster,
        producer_of(cluster, enable_idempotence=idempotent) as producer,
    ):
        await producer.send_and_wait("orders", b"first")
        refreshes = []
        request_update = producer._cluster.request_update
        monkeypatch.setattr(
            producer._cluster,
            "request_update",
            lambda: refreshes.append(code) or request_update(),
        )
        cluster.control(ApiKey.PRODUCE, error=code)
        found = await outcome(producer, code)
        if found == "1":
            found = "refresh" if refreshes else "retry"
            header = BatchHeader.read(bytes(cluster.partition("orders", 0).log.read(1, 2**20)))
            if cluster.count(ApiKey.INIT_PRODUCER_ID) > idempotent:
                found = "renew"
            elif header.producer_epoch > 0:
                found = "renumber"
        elif found == "-1":
            found = "stored"
        assert found == (IDEMPOTENT if idempotent else PLAIN)[code]


@pytest.mark.parametrize("required", [True, False], ids=["asked_for", "by_default"])
@every(INIT_PRODUCER_ID)
async def test_init_producer_id(code: int, reaction: str, required: bool) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        cluster.control(ApiKey.INIT_PRODUCER_ID, error=code)
        options = {"enable_idempotence": True} if required else {}
        async with producer_of(cluster, **options) as producer:
            found = await outcome(producer, code)
            if found == "0":
                header = BatchHeader.read(bytes(cluster.partition("orders", 0).log.read(0, 2**20)))
                found = "retry" if header.producer_id >= 0 else "without"
        if code in NO_ID_TO_BE_HAD and not required:
            reaction = "without"  # nobody asked for it, and there is nothing to be had
        assert found == reaction


@every(TOPIC)
async def test_metadata_of_a_topic(code: int, reaction: str) -> None:
    async with FakeCluster(topics=["orders"]) as cluster, producer_of(cluster) as producer:
        fault = cluster.control(ApiKey.METADATA, error=code, partitions=[("orders", None)])
        found = await outcome(producer, code)
        assert fault.hits == 1
        assert ("retry" if found == "0" else found) == reaction


@every(ANY_CODE)
async def test_metadata_of_a_partition(code: int, reaction: str) -> None:
    async with FakeCluster(topics=["orders"]) as cluster, producer_of(cluster) as producer:
        fault = cluster.control(ApiKey.METADATA, error=code, partitions=[("orders", 0)])
        found = await outcome(producer, code)
        assert fault.hits == 1
        assert ("retry" if found == "0" else found) == reaction


@every(ANY_CODE)
async def test_metadata_as_a_whole(code: int, reaction: str) -> None:
    def refuse(response: object) -> None:
        response.error_code = code  # type: ignore[attr-defined]  # Metadata v13

    async with FakeCluster(topics=["orders"]) as cluster, producer_of(cluster) as producer:
        fault = cluster.control(ApiKey.METADATA, edit=refuse)
        found = await outcome(producer, code)
        assert fault.hits == 1
        assert ("retry" if found == "0" else found) == reaction


@every(API_VERSIONS)
async def test_api_versions(code: int, reaction: str) -> None:
    """The connection is made again; only that of the start is its caller's to try again."""
    async with FakeCluster(topics=["orders"]) as cluster, producer_of(cluster) as producer:
        fault = cluster.control(ApiKey.API_VERSIONS, error=code)
        found = await outcome(producer, code)
        assert fault.hits == 1
        assert ("retry" if found == "0" else found) == reaction
