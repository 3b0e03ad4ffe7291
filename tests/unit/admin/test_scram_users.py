"""Describing and altering the SCRAM credentials of users."""

import asyncio
import logging
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    ScramCredential,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from aiokafka_lite.admin.security import scram_users
from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    IllegalArgumentError,
    KafkaProtocolError,
    KafkaTimeoutError,
    NotControllerError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedVersionError,
)
from aiokafka_lite.testing import ApiKey, FakeCluster

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
PASSWORD = "the-secret-é"


def altered_users(brokers: FakeCluster) -> list[list[str]]:
    return [
        [each.name for each in (*seen.body.deletions, *seen.body.upsertions)]
        for seen in brokers.requests
        if seen.api_key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    ]


async def test_credentials_are_set_described_and_deleted(admin: AIOKafkaAdminClient) -> None:
    altered = await admin.alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion("alice", SHA_256, PASSWORD),
            UserScramCredentialUpsertion("bob", SHA_512, b"\x00\xff", 8192, b"salt"),
        ]
    )
    assert altered.raise_for_errors() == {"alice": None, "bob": None}
    assert await admin.describe_user_scram_credentials() == {
        "alice": (ScramCredential(SHA_256, 4096),),
        "bob": (ScramCredential(SHA_512, 8192),),
    }
    (
        await admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion("alice", SHA_512, "other"),
                UserScramCredentialDeletion("bob", SHA_512),
            ]
        )
    ).raise_for_errors()
    described = await admin.describe_user_scram_credentials(["bob", "alice"])
    assert {each.mechanism for each in described.value("alice")} == {SHA_256, SHA_512}
    with pytest.raises(ResourceNotFoundError, match="user 'bob'"):
        described.value("bob")


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
async def test_a_client_logs_in_with_a_password_that_was_set(mechanism: ScramMechanism) -> None:
    async with FakeCluster(1, users={"root": "root"}, super_users=["User:root"]) as cluster:
        login: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
        }
        name = mechanism.name.replace("_", "-")
        async with AIOKafkaAdminClient(
            **login, sasl_plain_username="root", sasl_plain_password="root"
        ) as root:
            set_ = UserScramCredentialUpsertion("alice", mechanism, PASSWORD, 5000)
            (await root.alter_user_scram_credentials([set_])).raise_for_errors()
            async with AIOKafkaAdminClient(
                **login,
                sasl_mechanism=name,
                sasl_plain_username="alice",
                sasl_plain_password=PASSWORD,
            ) as alice:
                with pytest.raises(ClusterAuthorizationFailedError):
                    await alice.describe_user_scram_credentials()


async def test_passwords_are_salted_while_the_default_executor_is_full(
    admin: AIOKafkaAdminClient,
) -> None:
    loop, free = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    at_work = loop.run_in_executor(None, free.wait, 60)
    try:
        async with asyncio.timeout(30):
            altered = await admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion("alice", SHA_256, PASSWORD)]
            )
        altered.raise_for_errors()
        assert not at_work.done()
    finally:
        free.set()
        await at_work


async def test_salting_ends_with_the_deadline(
    admin: AIOKafkaAdminClient, brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()
    monkeypatch.setattr(scram_users, "_salt_all", lambda wanted: free.wait(60))
    try:
        async with asyncio.timeout(30):
            with pytest.raises(KafkaTimeoutError, match="nothing was sent"):
                await admin.alter_user_scram_credentials(
                    [UserScramCredentialUpsertion("alice", SHA_256, PASSWORD)], timeout_ms=50
                )
    finally:
        free.set()
    assert altered_users(brokers) == []


async def test_passwords_and_salts_are_in_no_repr_log_or_error(
    admin: AIOKafkaAdminClient, brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = UserScramCredentialUpsertion("alice", SHA_256, PASSWORD, salt=b"grains-of-salt")
    assert pickle.loads(pickle.dumps(secret)) == secret
    brokers.control(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, error=ClusterAuthorizationFailedError.errno
    )
    failed = await admin.alter_user_scram_credentials([secret])
    await admin.alter_user_scram_credentials([secret])
    [_, sent] = [
        seen.body
        for seen in brokers.requests
        if seen.api_key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    ]
    with pytest.raises(IllegalArgumentError) as unencodable:
        UserScramCredentialUpsertion("alice", SHA_256, "the-secret-\ud800")
    assert unencodable.value.__context__ is None
    shown = [repr(secret), str(secret), repr(failed), repr(sent), str(unencodable.value)]
    text = "\n".join((*shown, caplog.text))
    assert isinstance(failed["alice"], ClusterAuthorizationFailedError)
    for hidden in ("the-secret", "grains", repr(sent.upsertions[0].salted_password)):
        assert hidden not in text


async def test_a_user_that_the_broker_refuses_fails_alone(admin: AIOKafkaAdminClient) -> None:
    altered = await admin.alter_user_scram_credentials(
        [
            UserScramCredentialDeletion("nobody", SHA_256),
            UserScramCredentialUpsertion("alice", SHA_256, PASSWORD),
        ]
    )
    assert altered["alice"] is None
    assert isinstance(altered["nobody"], ResourceNotFoundError)


async def test_a_user_that_the_response_leaves_out_fails(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def empty(response: Any) -> None:
        response.results.clear()

    for api_key in (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS):
        brokers.control(api_key, after_handling=True, edit=empty)
    set_ = UserScramCredentialUpsertion("alice", SHA_256, PASSWORD)
    altered = await admin.alter_user_scram_credentials([set_])
    assert isinstance(altered["alice"], KafkaProtocolError)
    described = await admin.describe_user_scram_credentials(["alice"])
    assert isinstance(described["alice"], KafkaProtocolError)


async def test_only_the_user_with_a_retriable_error_is_altered_again(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def moved(response: Any) -> None:
        for each in response.results:
            if each.user == "bob":
                each.error_code = NotControllerError.errno

    brokers.control(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, after_handling=True, edit=moved)
    users = [UserScramCredentialUpsertion(user, SHA_256, PASSWORD) for user in ("alice", "bob")]
    (await admin.alter_user_scram_credentials(users)).raise_for_errors()
    assert altered_users(brokers) == [["alice", "bob"], ["bob"]]


async def test_an_interrupted_deletion_says_that_it_may_have_been_made(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    set_ = UserScramCredentialUpsertion("alice", SHA_256, PASSWORD)
    (await admin.alter_user_scram_credentials([set_])).raise_for_errors()
    brokers.control(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, after_handling=True, disconnect=True)
    deletion = UserScramCredentialDeletion("alice", SHA_256)
    altered = await admin.alter_user_scram_credentials([deletion])
    with pytest.raises(ResourceNotFoundError, match="may have deleted it"):
        altered.raise_for_errors()


async def test_mechanisms_newer_than_the_client_are_unknown(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def modernise(response: Any) -> None:
        response.results[0].credential_infos[0].mechanism = 9

    set_ = UserScramCredentialUpsertion("alice", SHA_256, PASSWORD)
    (await admin.alter_user_scram_credentials([set_])).raise_for_errors()
    brokers.control(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, times=None, after_handling=True, edit=modernise
    )
    for users in (None, ["alice"]):
        described = await admin.describe_user_scram_credentials(users)
        assert described.value("alice")[0].mechanism is ScramMechanism.UNKNOWN


async def test_an_error_of_a_user_among_all_is_returned(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def fail(response: Any) -> None:
        response.results[0].error_code = UnacceptableCredentialError.errno

    set_ = UserScramCredentialUpsertion("alice", SHA_256, PASSWORD)
    (await admin.alter_user_scram_credentials([set_])).raise_for_errors()
    brokers.control(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, after_handling=True, edit=fail)
    described = await admin.describe_user_scram_credentials()
    assert isinstance(described["alice"], UnacceptableCredentialError)


async def test_old_brokers_cannot_administer_credentials() -> None:
    async with (
        FakeCluster(1, version="2.6") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        too_old = r"SCRAM credentials requires Kafka 2\.7 or newer"
        with pytest.raises(UnsupportedVersionError, match=too_old):
            await admin.describe_user_scram_credentials()
        with pytest.raises(UnsupportedVersionError, match=too_old):
            await admin.alter_user_scram_credentials([UserScramCredentialDeletion("a", SHA_256)])


async def test_bad_arguments_send_nothing(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    call: Any = admin
    upsertion: Any = UserScramCredentialUpsertion
    twice = [
        UserScramCredentialDeletion("alice", SHA_256),
        UserScramCredentialUpsertion("alice", SHA_512, PASSWORD),
    ]
    with pytest.raises(IllegalArgumentError, match="'alice' is altered twice"):
        await admin.alter_user_scram_credentials(twice)
    for bad in (None, ["alice"], [("alice", PASSWORD)]):
        with pytest.raises(TypeError, match="`alterations`") as raised:
            await call.alter_user_scram_credentials(bad)
        assert PASSWORD not in str(raised.value)
    for users in ("alice", 1, [None]):
        with pytest.raises(TypeError, match="`user"):
            await call.describe_user_scram_credentials(users)
    with pytest.raises(IllegalArgumentError, match="`user` is empty"):
        await admin.describe_user_scram_credentials([""])
    for wrong, error, match in (
        (("", SHA_256, "x"), IllegalArgumentError, "`user` is empty"),
        (("a", SHA_256, ""), IllegalArgumentError, "`password` is empty"),
        (("a", SHA_256, 5), TypeError, "`password` should be a str or bytes, not int"),
        (("a", SHA_256, "x", 4095), IllegalArgumentError, "between 4096 and 16384"),
        (("a", SHA_256, "x", 16385), IllegalArgumentError, "between 4096 and 16384"),
        (("a", SHA_256, "x", 4096, ""), TypeError, "`salt`"),
        (("a", SHA_256, "x", 4096, b""), IllegalArgumentError, "`salt` is empty"),
        (("a", 1, "x"), TypeError, "`mechanism`"),
        (("a", ScramMechanism.UNKNOWN, "x"), IllegalArgumentError, "`mechanism`"),
    ):
        with pytest.raises(error, match=match):
            upsertion(*wrong)
    assert altered_users(brokers) == []
    assert brokers.count(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS) == 0
    assert await admin.describe_user_scram_credentials([]) == {}
    assert brokers.count(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS) == 0
