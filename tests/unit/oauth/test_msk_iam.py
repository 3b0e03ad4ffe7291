"""MSK's tokens: AWS's published signatures, botocore's output, and the credentials' sources."""

import base64
import sys
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from aiokafka_lite.errors import AuthenticationFailedError, KafkaConfigurationError
from aiokafka_lite.net.aws.aws_signer import presigned_query, signing_key
from aiokafka_lite.oauth import AwsCredentials, MskIam

EXAMPLE = AwsCredentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def test_signing_key_is_that_of_awss_example() -> None:
    key = signing_key("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830", "us-east-1", "iam")
    assert key.hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"


def test_presigned_url_is_that_of_awss_example() -> None:
    query = presigned_query(
        EXAMPLE,
        host="examplebucket.s3.amazonaws.com",
        path="/test.txt",
        region="us-east-1",
        service="s3",
        now=datetime(2013, 5, 24, tzinfo=UTC).timestamp(),
        expires=86_400,
        payload_hash="UNSIGNED-PAYLOAD",
    )
    assert query.endswith(
        "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )


def url_of(token: str) -> str:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


@pytest.mark.parametrize("session_token", [None, "a/session+token=="])
async def test_token_equals_the_signature_of_botocore(
    session_token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth = pytest.importorskip("botocore.auth", reason="botocore is not installed")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    given = AwsCredentials(EXAMPLE.access_key_id, EXAMPLE.secret_access_key, session_token)
    url = url_of(await MskIam("eu-west-1", credentials=given).token())
    base, _, agent = url.rpartition("&User-Agent=")
    assert agent.startswith("aiokafka_lite%2F")
    parameters = parse_qs(urlsplit(base).query)
    assert parameters["X-Amz-Expires"] == ["900"]
    at = datetime.strptime(parameters["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    moment = "get_current_datetime" if hasattr(auth, "get_current_datetime") else None
    if moment is not None:
        monkeypatch.setattr(auth, moment, lambda: at.replace(tzinfo=None))
    else:

        class Frozen(datetime):
            @classmethod
            def utcnow(cls) -> datetime:
                return at.replace(tzinfo=None)

        monkeypatch.setattr(auth.datetime, "datetime", Frozen)
    request = AWSRequest("GET", "https://kafka.eu-west-1.amazonaws.com/", params={
        "Action": "kafka-cluster:Connect"})  # fmt: skip
    theirs = Credentials(given.access_key_id, given.secret_access_key, session_token)
    signer = auth.SigV4QueryAuth(theirs, "kafka-cluster", "eu-west-1", expires=900)
    signer.add_auth(request)
    assert parse_qs(urlsplit(request.url).query) == parameters


async def test_token_does_not_outlive_its_credentials() -> None:
    soon = AwsCredentials("id", "key", "session", time.time() + 100)
    token = await MskIam("eu-west-1", credentials=soon).fetch()
    assert 95 < token.expires_at - time.time() <= 100
    assert 95 <= int(parse_qs(urlsplit(url_of(token.value)).query)["X-Amz-Expires"][0]) <= 100
    late = AwsCredentials("id", "key", "session", time.time() - 1)
    with pytest.raises(AuthenticationFailedError, match="AWS credentials id have expired"):
        await MskIam("eu-west-1", credentials=late).token()


async def test_credentials_and_region_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, name.lower())
    monkeypatch.setenv("AWS_REGION", "us-gov-west-1")
    url = url_of(await MskIam().token())
    parameters = parse_qs(urlsplit(url).query)
    assert urlsplit(url).hostname == "kafka.us-gov-west-1.amazonaws.com"
    assert parameters["X-Amz-Security-Token"] == ["aws_session_token"]
    assert parameters["X-Amz-Credential"][0].startswith("aws_access_key_id/")


@pytest.mark.parametrize("kind", ["function", "coroutine function"])
async def test_credentials_of_a_function(kind: str) -> None:
    async def coroutine_function() -> AwsCredentials:
        return EXAMPLE

    source: Any = coroutine_function if kind != "function" else lambda: EXAMPLE
    url = url_of(await MskIam("eu-west-1", credentials=source).token())
    assert "AKIAIOSFODNN7EXAMPLE" in url
    wrong: Any = lambda: ("id", "key")  # noqa: E731
    with pytest.raises(TypeError, match="returned tuple, not AwsCredentials"):
        await MskIam("eu-west-1", credentials=wrong).token()


async def test_without_credentials_and_botocore_the_error_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(AuthenticationFailedError, match=r"install aiokafka_lite\[aws\]"):
        await MskIam("eu-west-1").token()


async def test_botocores_chain_keeps_one_session(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    pytest.importorskip("botocore.session", reason="botocore is not installed")
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = ID\naws_secret_access_key = KEY\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    provider = MskIam("eu-west-1")
    assert "ID%2F" in url_of(await provider.token())
    chain = provider._credentials.chain
    await provider.fetch()
    assert provider._credentials.chain is chain is not None


@pytest.mark.parametrize("region", ["", "Ireland", "eu-west-1.evil.example/", "eu-west-1\n", None])
def test_invalid_region_is_refused(region: str | None) -> None:
    with pytest.raises(KafkaConfigurationError, match="region"):
        MskIam(region)


def test_credentials_are_not_shown() -> None:
    text = repr(AwsCredentials("id", "a-key", "a-session")) + repr(
        MskIam("eu-west-1", credentials=EXAMPLE)
    )
    assert "a-key" not in text
    assert "a-session" not in text
    assert EXAMPLE.secret_access_key not in text
