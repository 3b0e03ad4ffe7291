"""Creating, renewing, expiring and describing delegation tokens."""

import logging
from typing import Any

import pytest

from aiokafka_lite.admin import AIOKafkaAdminClient, DelegationToken
from aiokafka_lite.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenNotFound,
    DelegationTokenRequestNotAllowed,
    IllegalArgumentError,
    NotControllerError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from aiokafka_lite.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from aiokafka_lite.protocol.messages.expire_delegation_token import ExpireDelegationTokenResponse
from aiokafka_lite.protocol.messages.renew_delegation_token import RenewDelegationTokenResponse
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

SECRET = b"the-secret-hmac"
OF_TOKENS = {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
CREATED = CreateDelegationTokenResponse(
    principal_type="User",
    principal_name="alice",
    token_requester_principal_type="User",
    token_requester_principal_name="admin",
    issue_timestamp_ms=1,
    expiry_timestamp_ms=2,
    max_timestamp_ms=3,
    token_id="the-id",
    hmac=SECRET,
)
TOKEN = DelegationToken("the-id", SECRET, "User:alice", "User:admin", ("User:bob",), 1, 2, 3)


def requests_of(brokers: FakeCluster) -> list[Any]:
    return [seen.body for seen in brokers.requests if seen.api_key in OF_TOKENS]


async def test_a_token_is_created(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    brokers.control(ApiKey.CREATE_DELEGATION_TOKEN, times=2, respond_with=CREATED)
    token = await admin.create_delegation_token(
        ["User:bob", "User:bob"], owner="User:alice", max_lifetime_ms=60_000
    )
    assert token == TOKEN
    await admin.create_delegation_token()
    first, second = requests_of(brokers)
    assert (first.owner_principal_type, first.owner_principal_name) == ("User", "alice")
    assert [(each.principal_type, each.principal_name) for each in first.renewers] == [
        ("User", "bob")
    ]
    assert first.max_lifetime_ms == 60_000
    assert (second.owner_principal_type, second.owner_principal_name) == (None, None)
    assert (second.renewers, second.max_lifetime_ms) == ([], -1)


async def test_a_token_is_renewed_and_expired(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    renewed = RenewDelegationTokenResponse(expiry_timestamp_ms=77)
    expired = ExpireDelegationTokenResponse(expiry_timestamp_ms=88)
    brokers.control(ApiKey.RENEW_DELEGATION_TOKEN, times=2, respond_with=renewed)
    brokers.control(ApiKey.EXPIRE_DELEGATION_TOKEN, times=2, respond_with=expired)
    assert await admin.renew_delegation_token(SECRET) == 77
    assert await admin.renew_delegation_token(SECRET, renew_period_ms=5) == 77
    assert await admin.expire_delegation_token(SECRET) == 88
    assert await admin.expire_delegation_token(SECRET, expiry_period_ms=5) == 88
    sent = requests_of(brokers)
    assert {each.hmac for each in sent} == {SECRET}
    assert [each.renew_period_ms for each in sent[:2]] == [-1, 5]
    assert [each.expiry_time_period_ms for each in sent[2:]] == [-1, 5]


async def test_tokens_are_described(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    told = DescribedDelegationToken(
        *("User", "alice", "User", "admin", 1, 2, 3, "the-id", SECRET),
        renewers=[DescribedDelegationTokenRenewer("User", "bob")],
    )
    response = DescribeDelegationTokenResponse(tokens=[told])
    brokers.control(ApiKey.DESCRIBE_DELEGATION_TOKEN, times=2, respond_with=response)
    assert await admin.describe_delegation_token() == [TOKEN]
    assert await admin.describe_delegation_token(["User:alice"]) == [TOKEN]
    assert await admin.describe_delegation_token([]) == []
    every, some = requests_of(brokers)
    assert every.owners is None
    assert [(each.principal_type, each.principal_name) for each in some.owners] == [
        ("User", "alice")
    ]


async def test_errors_are_raised_and_retriable_ones_retried(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    for error in (NotControllerError, DelegationTokenNotFound):
        response = RenewDelegationTokenResponse(error_code=error.errno)
        brokers.control(ApiKey.RENEW_DELEGATION_TOKEN, respond_with=response)
    with pytest.raises(DelegationTokenNotFound) as raised:
        await admin.renew_delegation_token(SECRET)
    assert "the-secret" not in str(raised.value)
    assert brokers.count(ApiKey.RENEW_DELEGATION_TOKEN) == 2
    for call in (
        admin.create_delegation_token(),
        admin.renew_delegation_token(SECRET),
        admin.expire_delegation_token(SECRET),
        admin.describe_delegation_token(),
    ):
        with pytest.raises(DelegationTokenRequestNotAllowed):
            await call


async def test_a_broker_whose_controller_was_slow_is_not_asked_for_a_second_token(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    slow = CreateDelegationTokenResponse(error_code=RequestTimedOutError.errno)
    brokers.control(ApiKey.CREATE_DELEGATION_TOKEN, respond_with=slow)
    with pytest.raises(RequestTimedOutError):
        await admin.create_delegation_token()
    assert brokers.count(ApiKey.CREATE_DELEGATION_TOKEN) == 1


async def test_a_token_that_an_unanswered_request_may_have_expired(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    gone = ExpireDelegationTokenResponse(error_code=DelegationTokenNotFound.errno)
    brokers.control(ApiKey.EXPIRE_DELEGATION_TOKEN, disconnect=True)
    brokers.control(ApiKey.EXPIRE_DELEGATION_TOKEN, times=2, respond_with=gone)
    with pytest.raises(DelegationTokenNotFound, match="may have expired it"):
        await admin.expire_delegation_token(SECRET)
    with pytest.raises(DelegationTokenNotFound) as raised:
        await admin.expire_delegation_token(SECRET)
    assert "earlier attempt" not in str(raised.value)


async def test_brokers_without_a_secret_key_have_no_tokens() -> None:
    async with (
        FakeCluster(1, users={"alice": "a"}) as cluster,
        AIOKafkaAdminClient(
            bootstrap_servers=cluster.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_plain_username="alice",
            sasl_plain_password="a",
        ) as admin,
    ):
        with pytest.raises(DelegationTokenAuthDisabled):
            await admin.create_delegation_token()


async def test_secrets_are_in_no_repr_log_or_error(
    admin: AIOKafkaAdminClient, brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    brokers.control(ApiKey.CREATE_DELEGATION_TOKEN, respond_with=CREATED)
    token = await admin.create_delegation_token(["User:bob"])
    with pytest.raises(DelegationTokenRequestNotAllowed) as raised:
        await admin.renew_delegation_token(token.hmac)
    wrong: Any = "the-secret-hmac"
    with pytest.raises(TypeError, match="`hmac` should be the bytes of a token, not str") as typed:
        await admin.expire_delegation_token(wrong)
    shown = [repr(token), str(token), str(raised.value), str(typed.value), caplog.text]
    shown += [repr(body) for body in requests_of(brokers)]
    assert "the-id" in shown[0]
    assert "the-secret" not in "\n".join(shown)


async def test_old_brokers_are_named() -> None:
    async with (
        FakeCluster(1, version="1.0") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        for call in (
            admin.create_delegation_token(),
            admin.renew_delegation_token(SECRET),
            admin.expire_delegation_token(SECRET),
            admin.describe_delegation_token(),
        ):
            with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 1\.1 or newer"):
                await call


async def test_brokers_before_3_3_have_tokens_of_their_requester_only() -> None:
    async with (
        FakeCluster(1, version="3.2") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        with pytest.raises(UnsupportedVersionError, match=r"owner requires Kafka 3\.3 or newer"):
            await admin.create_delegation_token(owner="User:alice")
        own = CreateDelegationTokenResponse(
            principal_type="User", principal_name="alice", token_id="the-id", hmac=SECRET
        )
        old.control(ApiKey.CREATE_DELEGATION_TOKEN, respond_with=own)
        token = await admin.create_delegation_token()
        assert (token.owner, token.requester) == ("User:alice", None)


async def test_bad_arguments_send_nothing(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    call: Any = admin
    for several in ("User:bob", None, 1, [1]):
        with pytest.raises(TypeError, match="renewers"):
            await call.create_delegation_token(several)
    for principal in ("bob", "User:", ":bob", ""):
        with pytest.raises(IllegalArgumentError, match="the form 'User:alice'"):
            await admin.create_delegation_token(owner=principal)
        with pytest.raises(IllegalArgumentError, match="the form 'User:alice'"):
            await admin.describe_delegation_token([principal])
    with pytest.raises(IllegalArgumentError, match="max_lifetime_ms"):
        await admin.create_delegation_token(max_lifetime_ms=-5)
    with pytest.raises(TypeError, match="renew_period_ms"):
        await call.renew_delegation_token(SECRET, renew_period_ms="1")
    with pytest.raises(IllegalArgumentError, match="expiry_period_ms"):
        await admin.expire_delegation_token(SECRET, expiry_period_ms=-5)
    with pytest.raises(IllegalArgumentError, match="`hmac` is empty"):
        await admin.renew_delegation_token(b"")
    assert requests_of(brokers) == []
