"""SASL/AWS_MSK_IAM: published vectors, the embedded broker's own check, credentials, regions."""

import asyncio
import json
import time
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import AuthenticationFailedError, KafkaConfigurationError
from aiokafka_lite.net.sasl.aws_msk_iam import AwsMskIam, first_message, region_of
from aiokafka_lite.oauth import AwsCredentials
from aiokafka_lite.testing import FakeCluster, VirtualClock
from aiokafka_lite.testing.security import authentication

KEY = AwsCredentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
HOST = "b-1.orders.abc123.c2.kafka.eu-west-1.amazonaws.com"
SETTINGS: dict[str, Any] = {
    "users": {KEY.access_key_id: KEY.secret_access_key},
    "sasl_mechanisms": ["AWS_MSK_IAM"],
}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("session_token", [None, "a/session+token=="])
def test_signature_equals_that_of_botocore(
    session_token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth = pytest.importorskip("botocore.auth", reason="botocore is not installed")
    from urllib.parse import parse_qs, urlsplit

    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    given = AwsCredentials(KEY.access_key_id, KEY.secret_access_key, session_token)
    ours = json.loads(first_message(given, HOST, "eu-west-1", 1_700_000_000, 900))
    request = AWSRequest("GET", f"https://{HOST}/", params={"Action": "kafka-cluster:Connect"})
    signer = auth.SigV4QueryAuth(
        Credentials(given.access_key_id, given.secret_access_key, session_token),
        *("kafka-cluster", "eu-west-1"),
        expires=900,
    )
    from datetime import UTC, datetime

    at = datetime.fromtimestamp(1_700_000_000, UTC)
    if hasattr(auth, "get_current_datetime"):
        monkeypatch.setattr(auth, "get_current_datetime", lambda: at.replace(tzinfo=None))
    else:

        class Frozen(datetime):
            @classmethod
            def utcnow(cls) -> datetime:
                return at.replace(tzinfo=None)

        monkeypatch.setattr(auth.datetime, "datetime", Frozen)
    signer.add_auth(request)
    theirs = {
        name.lower(): value for name, [value] in parse_qs(urlsplit(request.url).query).items()
    }
    fixed = {"version": "2020_10_22", "host": HOST, "user-agent": ours["user-agent"]}
    assert ours == {**theirs, **fixed}


def arguments(cluster: FakeCluster, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "AWS_MSK_IAM",
        "sasl_aws_region": "eu-west-1",
        **more,
    }


async def current() -> AwsCredentials:
    return KEY


@pytest.mark.parametrize(
    "credentials", [KEY, lambda: KEY, current], ids=["given", "function", "coroutine function"]
)
async def test_broker_accepts_the_signature(credentials: Any) -> None:
    with FakeCluster(topics=["orders"], **SETTINGS) as cluster:
        async with AIOKafkaProducer(
            **arguments(cluster, sasl_aws_credentials=credentials)
        ) as producer:
            await producer.send_and_wait("orders", b"one tea")
        assert cluster.requests[-1].principal == f"User:{KEY.access_key_id}"


async def test_credentials_and_region_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY.secret_access_key)
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    with FakeCluster(topics=["orders"], **SETTINGS) as cluster:
        async with AIOKafkaProducer(**arguments(cluster, sasl_aws_region=None)) as producer:
            await producer.send_and_wait("orders", b"one tea")


async def test_wrong_secret_raises_without_showing_it() -> None:
    wrong = AwsCredentials(KEY.access_key_id, "another-secret", "a-session-token")
    with FakeCluster(**SETTINGS) as cluster:
        producer = AIOKafkaProducer(**arguments(cluster, sasl_aws_credentials=wrong))
        with pytest.raises(AuthenticationFailedError, match="signature does not match") as caught:
            await producer.start()
        await producer.stop()
    assert "another-secret" not in repr(caught.value) + repr(producer)
    assert "a-session-token" not in repr(caught.value)


async def test_sessions_are_renewed_with_new_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "LEAST_TIME_BETWEEN_MS", 0)
    asked = 0

    def rotated() -> AwsCredentials:
        nonlocal asked
        asked += 1
        return KEY

    # Time stands still for the broker: it closes no connection whose client is slow.
    lifetime: Any = {"sasl_session_lifetime": 0.5, "clock": VirtualClock()}
    with FakeCluster(topics=["orders"], **lifetime, **SETTINGS) as cluster:
        async with (
            AIOKafkaProducer(**arguments(cluster, sasl_aws_credentials=rotated)) as producer,
            asyncio.timeout(60),
        ):
            await producer.send_and_wait("orders", b"one tea")
            first = asked
            while asked < first + 2:
                await producer.send_and_wait("orders", b"one tea")
                await asyncio.sleep(0.02)


async def test_signature_does_not_outlive_its_credentials() -> None:
    soon = AwsCredentials("id", "key", "session", time.time() + 100)
    exchange = await AwsMskIam(soon).begin(HOST)
    message = json.loads(next(exchange))
    assert 95 <= int(message["x-amz-expires"]) <= 100
    assert message["x-amz-security-token"] == "session"
    late = AwsCredentials("id", "key", "session", time.time() - 1)
    with pytest.raises(AuthenticationFailedError, match="AWS credentials id have expired"):
        await AwsMskIam(late).begin(HOST)


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-west-1"),
        ("boot-1.kafka-serverless.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("b-1.x.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("B-1.X.KAFKA.AP-SOUTH-1.AMAZONAWS.COM.", "ap-south-1"),
    ],
)
def test_region_is_in_the_brokers_name(host: str, region: str) -> None:
    assert region_of(host) == region


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "broker.example", "kafka.eu-west-1.amazonaws.com.evil.example"]
)
def test_unknown_region_is_refused(host: str) -> None:
    with pytest.raises(KafkaConfigurationError, match="sasl_aws_region"):
        region_of(host)


def test_invalid_region_is_refused() -> None:
    with pytest.raises(KafkaConfigurationError, match="Ireland"):
        AwsMskIam(KEY, "Ireland")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "is empty"),
        (b"{}", "is not of version"),
        (b"\xff", "is not of version"),
        (b"[" * 60_000, "is not of version"),
        (b'{"version":"2099_01_01"}', "is not of version"),
        (b'{"version":"2020_10_22"}' + b" " * 70_000, "is longer than"),
    ],
)
async def test_invalid_answers_raise(answer: bytes, text: str) -> None:
    exchange = await AwsMskIam(KEY).begin(HOST)
    next(exchange)
    with pytest.raises(AuthenticationFailedError, match=text) as caught:
        exchange.send(answer)
    assert len(str(caught.value)) < 300


def test_credentials_are_not_shown() -> None:
    assert KEY.secret_access_key not in repr(AwsMskIam(KEY)) + repr(vars(AwsMskIam(KEY)))
