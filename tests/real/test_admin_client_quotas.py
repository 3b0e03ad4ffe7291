"""Client quotas of the admin client against a real Kafka; librdkafka observes their effect."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafka_lite.admin import AIOKafkaAdminClient, ClientQuotaEntity, ClientQuotaFilterComponent
from aiokafka_lite.errors import InvalidRequestError
from tools.kafka import RealKafka

confluent_kafka = pytest.importorskip("confluent_kafka")


@pytest.fixture
async def admin(kafka: RealKafka) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as client:
        yield client


def a_name() -> str:
    return f"quota-{uuid.uuid4().hex[:10]}"


def throttles(kafka: RealKafka, client_id: str, topic: str) -> list[float]:
    """The delays in seconds that a broker imposes on a librdkafka producer."""
    delays: list[float] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "client.id": client_id,
            "throttle_cb": lambda event: delays.append(event.throttle_time),
        }
    )
    for _ in range(5):
        producer.produce(topic, b"x" * 20_000)
        assert producer.flush(60) == 0
    producer.poll(0)
    return delays


async def test_quotas_are_set_described_and_removed(admin: AIOKafkaAdminClient) -> None:
    user, app = a_name(), a_name()
    entities = {
        ClientQuotaEntity({"user": user}): {"producer_byte_rate": 1e6, "request_percentage": 55.5},
        ClientQuotaEntity({"user": user, "client-id": app}): {"consumer_byte_rate": 4096.0},
        ClientQuotaEntity({"user": user, "client-id": None}): {"controller_mutation_rate": 2.0},
        ClientQuotaEntity({"ip": "10.9.8.7"}): {"connection_creation_rate": 3.0},
    }
    (await admin.alter_client_quotas(entities)).raise_for_errors()
    wanted = dict(entities)
    async with asyncio.timeout(30):
        while not wanted.items() <= (described := await admin.describe_client_quotas()).items():
            await asyncio.sleep(0.05)
    assert {entity: described[entity] for entity in entities} == entities

    of_user = ClientQuotaFilterComponent.of_entity("user", user)
    first, both, default, _ = entities
    assert set(await admin.describe_client_quotas([of_user])) == {first, both, default}
    assert set(await admin.describe_client_quotas([of_user], strict=True)) == {first}
    with_default = [of_user, ClientQuotaFilterComponent.of_default_entity("client-id")]
    assert set(await admin.describe_client_quotas(with_default)) == {default}
    with_any = [of_user, ClientQuotaFilterComponent.of_entity_type("client-id")]
    assert set(await admin.describe_client_quotas(with_any, strict=True)) == {both, default}

    removed = {entity: dict.fromkeys(quotas) for entity, quotas in entities.items()}
    (await admin.alter_client_quotas(removed)).raise_for_errors()
    async with asyncio.timeout(30):
        while set(entities) & set(await admin.describe_client_quotas()):
            await asyncio.sleep(0.05)


async def test_a_quota_throttles_librdkafka(
    admin: AIOKafkaAdminClient, kafka: RealKafka, topic: Any
) -> None:
    client_id, name = a_name(), topic(1)
    assert not await asyncio.to_thread(throttles, kafka, client_id, name)
    entity = ClientQuotaEntity({"client-id": client_id})
    change = {entity: {"producer_byte_rate": 50_000.0}}
    (await admin.alter_client_quotas(change, validate_only=True)).raise_for_errors()
    assert entity not in await admin.describe_client_quotas()
    (await admin.alter_client_quotas(change)).raise_for_errors()
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(throttles, kafka, client_id, name):
            pass
    (await admin.alter_client_quotas({entity: {"producer_byte_rate": None}})).raise_for_errors()


async def test_an_unknown_quota_fails_alone(admin: AIOKafkaAdminClient) -> None:
    bad, good = (ClientQuotaEntity({"client-id": a_name()}) for _ in range(2))
    altered = await admin.alter_client_quotas(
        {bad: {"no_such_quota": 1}, good: {"producer_byte_rate": 1}}
    )
    assert isinstance(altered[bad], InvalidRequestError)
    assert altered[good] is None
    (await admin.alter_client_quotas({good: {"producer_byte_rate": None}})).raise_for_errors()
