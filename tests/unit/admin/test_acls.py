"""Describing, creating and deleting ACLs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafka_lite.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermission,
    AIOKafkaAdminClient,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    IllegalArgumentError,
    InvalidRequestError,
    KafkaProtocolError,
    NotControllerError,
    SecurityDisabled,
    UnsupportedVersionError,
)
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
MAY_READ = AclBinding(ORDERS, "User:alice", AclOperation.READ)
MAY_NOT_WRITE = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED),
    "User:alice",
    AclOperation.WRITE,
    AclPermission.DENY,
    "127.0.0.1",
)
APPLIES_TO_ORDERS = AclBindingFilter(
    ResourcePatternFilter(ResourceType.TOPIC, "orders", PatternType.MATCH)
)


@pytest.fixture
async def guarded() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(1, ["orders"], super_users=["User:ANONYMOUS"]) as cluster:
        yield cluster


@pytest.fixture
async def admin(guarded: FakeCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(
        bootstrap_servers=guarded.bootstrap_servers, retry_backoff_ms=10
    ) as client:
        yield client


async def test_acls_are_created_described_and_deleted(admin: AIOKafkaAdminClient) -> None:
    created = await admin.create_acls([MAY_READ, MAY_NOT_WRITE, MAY_READ])
    assert created.raise_for_errors() == {MAY_READ: None, MAY_NOT_WRITE: None}
    assert set(await admin.describe_acls(AclBindingFilter())) == {MAY_READ, MAY_NOT_WRITE}
    assert set(await admin.describe_acls(APPLIES_TO_ORDERS)) == {MAY_READ, MAY_NOT_WRITE}
    named = AclBindingFilter(ResourcePatternFilter(name="orders"))
    assert await admin.describe_acls(named) == [MAY_READ]
    none = AclBindingFilter(principal="User:bob")
    deleted = await admin.delete_acls([MAY_NOT_WRITE.to_filter(), none])
    assert deleted.deleted() == [MAY_NOT_WRITE]
    assert deleted.value(none) == {}
    deleted.raise_for_errors()
    assert await admin.describe_acls(AclBindingFilter()) == [MAY_READ]


async def test_an_acl_that_the_broker_refuses_fails_alone(admin: AIOKafkaAdminClient) -> None:
    bad = AclBinding(
        ResourcePattern(ResourceType.CLUSTER, "not-the-cluster"), "User:a", AclOperation.ALTER
    )
    created = await admin.create_acls([bad, MAY_READ])
    assert created[MAY_READ] is None
    with pytest.raises(
        InvalidRequestError, match="ACL ALLOW ALTER on CLUSTER LITERAL 'not-the-cluster' to"
    ):
        created.raise_for_errors()
    assert await admin.describe_acls(AclBindingFilter()) == [MAY_READ]


async def test_an_acl_that_the_response_leaves_out_fails(
    admin: AIOKafkaAdminClient, guarded: FakeCluster
) -> None:
    def shorten(response: Any) -> None:
        response.results.pop()

    guarded.control(ApiKey.CREATE_ACLS, after_handling=True, edit=shorten)
    created = await admin.create_acls([MAY_READ, MAY_NOT_WRITE])
    assert created[MAY_READ] is None
    assert isinstance(created[MAY_NOT_WRITE], KafkaProtocolError)


async def test_a_filter_that_the_response_leaves_out_fails(
    admin: AIOKafkaAdminClient, guarded: FakeCluster
) -> None:
    def shorten(response: Any) -> None:
        response.filter_results.pop()

    guarded.control(ApiKey.DELETE_ACLS, after_handling=True, edit=shorten)
    deleted = await admin.delete_acls([MAY_READ.to_filter(), MAY_NOT_WRITE.to_filter()])
    assert deleted[MAY_READ.to_filter()] == {}
    assert isinstance(deleted[MAY_NOT_WRITE.to_filter()], KafkaProtocolError)


async def test_only_the_acl_with_a_retriable_error_is_sent_again(
    admin: AIOKafkaAdminClient, guarded: FakeCluster
) -> None:
    def not_here(response: Any) -> None:
        response.results[1].error_code = NotControllerError.errno

    guarded.control(ApiKey.CREATE_ACLS, after_handling=True, edit=not_here)
    (await admin.create_acls([MAY_READ, MAY_NOT_WRITE])).raise_for_errors()
    sent = [
        [each.resource_name for each in seen.body.creations]
        for seen in guarded.requests
        if seen.api_key == ApiKey.CREATE_ACLS
    ]
    assert sent == [["orders", "ord"], ["ord"]]


async def test_an_acl_that_could_not_be_deleted_is_reported(
    admin: AIOKafkaAdminClient, guarded: FakeCluster
) -> None:
    def fail_second(response: Any) -> None:
        response.filter_results[0].matching_acls[
            1
        ].error_code = ClusterAuthorizationFailedError.errno

    await admin.create_acls([MAY_READ, MAY_NOT_WRITE])
    guarded.control(ApiKey.DELETE_ACLS, after_handling=True, edit=fail_second)
    result = await admin.delete_acls([AclBindingFilter()])
    matches = result.value(AclBindingFilter())
    assert len(matches.errors()) == 1
    assert result.deleted() == list(matches.valid())
    assert result.errors() == {}
    with pytest.raises(ClusterAuthorizationFailedError, match="on TOPIC"):
        result.raise_for_errors()


async def test_acls_that_are_newer_than_the_client_are_unknown(
    admin: AIOKafkaAdminClient, guarded: FakeCluster
) -> None:
    def modernise(response: Any) -> None:
        response.resources[0].resource_type = 99
        response.resources[0].acls[0].operation = 99

    await admin.create_acls([MAY_READ])
    guarded.control(ApiKey.DESCRIBE_ACLS, after_handling=True, edit=modernise)
    [acl] = await admin.describe_acls(AclBindingFilter())
    assert acl.is_unknown
    assert acl.pattern.resource_type is ResourceType.UNKNOWN
    assert acl.operation is AclOperation.UNKNOWN
    with pytest.raises(IllegalArgumentError, match="UNKNOWN"):
        await admin.create_acls([acl])
    with pytest.raises(IllegalArgumentError, match="UNKNOWN"):
        await admin.delete_acls([acl.to_filter()])
    assert guarded.count(ApiKey.CREATE_ACLS) == 1
    assert guarded.count(ApiKey.DELETE_ACLS) == 0


async def test_brokers_without_an_authorizer_have_no_acls(brokers: FakeCluster) -> None:
    async with AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers) as admin:
        with pytest.raises(SecurityDisabled):
            await admin.describe_acls(AclBindingFilter())
        assert isinstance((await admin.create_acls([MAY_READ]))[MAY_READ], SecurityDisabled)


async def test_old_brokers_have_literal_patterns_only() -> None:
    async with (
        FakeCluster(1, version="1.1", super_users=["User:ANONYMOUS"]) as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        (await admin.create_acls([MAY_READ])).raise_for_errors()
        assert await admin.describe_acls(AclBindingFilter()) == [MAY_READ]
        for call in (
            admin.create_acls([MAY_NOT_WRITE]),
            admin.describe_acls(APPLIES_TO_ORDERS),
            admin.delete_acls([APPLIES_TO_ORDERS]),
        ):
            with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 2\.0 or newer"):
                await call
        assert (await admin.delete_acls([AclBindingFilter()])).deleted() == [MAY_READ]


async def test_bad_arguments_send_nothing(admin: AIOKafkaAdminClient, guarded: FakeCluster) -> None:
    call: Any = admin
    for bad in (MAY_READ, None, "orders", ORDERS):
        with pytest.raises(TypeError, match="AclBindingFilter"):
            await call.describe_acls(bad)
        with pytest.raises(TypeError, match="AclBindingFilter"):
            await call.delete_acls([bad])
        with pytest.raises(TypeError, match="AclBinding"):
            await call.create_acls(bad)
    with pytest.raises(TypeError, match="AclBinding"):
        await call.create_acls([MAY_READ, AclBindingFilter()])
    asked = {seen.api_key for seen in guarded.requests}
    assert not asked & {ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS}


def test_values_that_only_filters_can_have_are_refused() -> None:
    kind: Any = ResourceType.ANY
    with pytest.raises(IllegalArgumentError, match="`resource_type` of an ACL cannot be ANY"):
        ResourcePattern(kind, "orders")
    for pattern in (PatternType.ANY, PatternType.MATCH):
        with pytest.raises(IllegalArgumentError, match="`pattern_type` of an ACL cannot be"):
            ResourcePattern(ResourceType.TOPIC, "orders", pattern)
    with pytest.raises(IllegalArgumentError, match="`operation` of an ACL cannot be ANY"):
        AclBinding(ORDERS, "User:alice", AclOperation.ANY)
    with pytest.raises(IllegalArgumentError, match="`permission` of an ACL cannot be ANY"):
        AclBinding(ORDERS, "User:alice", AclOperation.READ, AclPermission.ANY)
    for wrong in ({"principal": None}, {"operation": 3}, {"host": 1}, {"pattern": "orders"}):
        given: dict[str, Any] = {
            "pattern": ORDERS,
            "principal": "User:alice",
            "operation": AclOperation.READ,
            **wrong,
        }
        with pytest.raises(TypeError, match=next(iter(wrong))):
            AclBinding(**given)
    with pytest.raises(TypeError, match="name"):
        ResourcePatternFilter(name=1)  # type: ignore[arg-type]  # what the test is about
