"""Describing and altering client quotas."""

import pickle
from typing import Any

import pytest

from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    ClientQuotaEntity,
    ClientQuotaFilterComponent,
    ClientQuotaMatch,
)
from aiokafka_lite.errors import (
    IllegalArgumentError,
    InvalidRequestError,
    KafkaProtocolError,
    NotControllerError,
    UnsupportedVersionError,
)
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

ALICE = ClientQuotaEntity({"user": "alice"})
DEFAULT = ClientQuotaEntity({"user": None})
BOTH = ClientQuotaEntity({"user": "alice", "client-id": "app"})
RATE = "producer_byte_rate"
Component = ClientQuotaFilterComponent


async def test_quotas_are_set_described_and_removed(admin: AIOKafkaAdminClient) -> None:
    altered = await admin.alter_client_quotas(
        {ALICE: {RATE: 1024, "request_percentage": 12.5}, DEFAULT: {RATE: 1}, BOTH: {RATE: 2}}
    )
    assert altered.raise_for_errors() == {ALICE: None, DEFAULT: None, BOTH: None}
    of_alice = {RATE: 1024.0, "request_percentage": 12.5}
    assert await admin.describe_client_quotas() == {
        ALICE: of_alice,
        DEFAULT: {RATE: 1.0},
        BOTH: {RATE: 2.0},
    }
    exact = [Component.of_entity("user", "alice")]
    assert set(await admin.describe_client_quotas(exact)) == {ALICE, BOTH}
    assert await admin.describe_client_quotas(exact, strict=True) == {ALICE: of_alice}
    default = [Component.of_default_entity("user")]
    assert set(await admin.describe_client_quotas(default)) == {DEFAULT}
    every = [Component.of_entity_type("user")]
    assert set(await admin.describe_client_quotas(every, strict=True)) == {ALICE, DEFAULT}
    (await admin.alter_client_quotas({ALICE: {RATE: None}})).raise_for_errors()
    assert (await admin.describe_client_quotas(exact, strict=True)) == {
        ALICE: {"request_percentage": 12.5}
    }


async def test_validate_only_changes_nothing(admin: AIOKafkaAdminClient) -> None:
    (await admin.alter_client_quotas({ALICE: {RATE: 1}}, validate_only=True)).raise_for_errors()
    assert await admin.describe_client_quotas() == {}


async def test_an_entity_that_the_broker_refuses_fails_alone(admin: AIOKafkaAdminClient) -> None:
    altered = await admin.alter_client_quotas({ALICE: {"no_such_quota": 1}, BOTH: {RATE: 1}})
    assert altered[BOTH] is None
    with pytest.raises(InvalidRequestError, match="quotas of user 'alice'"):
        altered.value(ALICE)


async def test_an_entity_that_the_response_leaves_out_fails(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def empty(response: Any) -> None:
        response.entries.clear()

    brokers.control(ApiKey.ALTER_CLIENT_QUOTAS, after_handling=True, edit=empty)
    altered = await admin.alter_client_quotas({DEFAULT: {RATE: 1}})
    with pytest.raises(KafkaProtocolError, match="quotas of default user"):
        altered.value(DEFAULT)


async def test_only_the_entity_with_a_retriable_error_is_sent_again(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def moved(response: Any) -> None:
        response.entries[1].error_code = NotControllerError.errno

    brokers.control(ApiKey.ALTER_CLIENT_QUOTAS, after_handling=True, edit=moved)
    (await admin.alter_client_quotas({ALICE: {RATE: 1}, BOTH: {RATE: 1}})).raise_for_errors()
    sent = [
        [len(each.entity) for each in seen.body.entries]
        for seen in brokers.requests
        if seen.api_key == ApiKey.ALTER_CLIENT_QUOTAS
    ]
    assert sent == [[1, 2], [2]]


async def test_a_null_description_is_empty(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def nothing(response: Any) -> None:
        response.entries = None

    brokers.control(ApiKey.DESCRIBE_CLIENT_QUOTAS, after_handling=True, edit=nothing)
    assert await admin.describe_client_quotas() == {}


async def test_old_brokers_have_no_requests_for_quotas() -> None:
    async with (
        FakeCluster(1, version="2.5") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        for call in (
            admin.describe_client_quotas(),
            admin.alter_client_quotas({ALICE: {RATE: 1}}),
        ):
            with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 2\.6 or newer"):
                await call


async def test_bad_arguments_send_nothing(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    call: Any = admin
    for bad in ([ALICE], None, {"alice": {RATE: 1}}, {ALICE: RATE}, {ALICE: {RATE: "1"}}):
        with pytest.raises(TypeError):
            await call.alter_client_quotas(bad)
    for value in (0, -1, float("nan"), float("inf")):
        with pytest.raises(IllegalArgumentError, match=f"{RATE} of user 'alice' should be above 0"):
            await admin.alter_client_quotas({ALICE: {RATE: value}})
    with pytest.raises(IllegalArgumentError, match="nothing to alter"):
        await admin.alter_client_quotas({ALICE: {}})
    with pytest.raises(TypeError, match="`validate_only`"):
        await call.alter_client_quotas({ALICE: {RATE: 1}}, validate_only="no")
    with pytest.raises(TypeError, match="`strict`"):
        await call.describe_client_quotas(strict=1)
    for components in (None, ["user"], [ALICE]):
        with pytest.raises(TypeError, match="omponent"):
            await call.describe_client_quotas(components)
    with pytest.raises(IllegalArgumentError, match="'user' is in the filter twice"):
        await admin.describe_client_quotas(
            [Component.of_entity_type("user"), Component.of_default_entity("user")]
        )
    asked = {seen.api_key for seen in brokers.requests}
    assert not asked & {ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS}


def test_entities_and_components_are_checked() -> None:
    entity: Any = ClientQuotaEntity
    with pytest.raises(IllegalArgumentError, match="empty"):
        entity({})
    for bad in (None, "user", {1: "a"}, {"user": 1}):
        with pytest.raises(TypeError):
            entity(bad)
    with pytest.raises(IllegalArgumentError, match="EXACT"):
        Component("user", ClientQuotaMatch.EXACT)
    with pytest.raises(IllegalArgumentError, match="EXACT"):
        Component("user", ClientQuotaMatch.DEFAULT, "alice")
    wrong: Any = 0
    with pytest.raises(TypeError, match="ClientQuotaMatch"):
        Component("user", wrong, "alice")
    with pytest.raises(TypeError, match="match"):
        Component("user", ClientQuotaMatch.EXACT, wrong)


def test_entities_are_immutable_keys() -> None:
    given: dict[str, str | None] = {"user": "alice", "client-id": "app"}
    entity = ClientQuotaEntity(given)
    given["user"] = "bob"
    assert entity == BOTH == ClientQuotaEntity({"client-id": "app", "user": "alice"})
    assert hash(entity) == hash(BOTH)
    assert pickle.loads(pickle.dumps(entity)) == entity
    assert repr(DEFAULT) == "ClientQuotaEntity({'user': None})"
