"""No repr, log line, error, traceback or metric contains a secret of TLS, proxies or tokens."""

import asyncio
import json
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import (
    AIOKafkaAdminClient,
    AIOKafkaClient,
    AIOKafkaConsumer,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
)
from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaConfigurationError,
    KafkaError,
)
from aiokafka_lite.net.sasl.aws_msk_iam import AwsMskIam
from aiokafka_lite.net.sasl.oauthbearer import OAuthBearer
from aiokafka_lite.oauth import (
    AwsCredentials,
    AzureManagedIdentity,
    ClientCredentials,
    HttpRequest,
    HttpResponse,
    JwtBearer,
    MskIam,
    TokenFile,
)
from aiokafka_lite.testing import FakeCluster
from tests.certificates import Authority, Certificate
from tests.proxies import ProxyServer

MARKER = "m4rker"
"""Part of every secret here, but of nothing else."""


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    authority = Authority(tmp_path_factory.mktemp("authority") / "ca")
    return authority.issue("client", password=MARKER)


@pytest.fixture(scope="module")
def plain_key(encrypted: Certificate) -> str:
    """The same key without its password, and with the marker in a comment."""
    command = ["openssl", "pkey", "-in", str(encrypted.key), "-passin", f"pass:{MARKER}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return f"{MARKER}\n{done.stdout}"


Objects = Callable[[], list[object]]


def reprs(objects: list[object]) -> str:
    """The repr and str of objects, and their metrics."""
    found = []
    for each in objects:
        found.append(f"{each!r} {each}")
        if callable(metrics := getattr(type(each), "metrics", None)):
            try:
                found.append(repr(metrics(each)))
            except (TypeError, AttributeError):
                continue  # it takes arguments; or a client of another test, half constructed
    return "\n".join(found)


async def everything_said(options: dict[str, Any], objects: Objects) -> str:
    """All output of clients with these options while they fail to start."""
    said = []
    for make in (
        AIOKafkaProducer,
        AIOKafkaConsumer,
        AIOKafkaAdminClient,
        AIOKafkaClient,
        lambda **given: AIOKafkaShareConsumer("t", group_id="g", **given),
    ):
        try:
            client = make(**options)
        except (TypeError, ValueError) as error:
            said += traceback.format_exception(error)
            continue
        try:
            async with asyncio.timeout(60):
                await (client.bootstrap() if make is AIOKafkaClient else client.start())
        except KafkaError as error:
            said += traceback.format_exception(error)
        said.append(reprs(objects()))
        await (client.stop() if hasattr(client, "stop") else client.close())
    return "\n".join(said)


@pytest.mark.timeout(600)  # the repr of all objects, which are many late in a run
@pytest.mark.parametrize("scheme", ["socks5", "http"])
async def test_tls_and_proxy_secrets_stay_hidden(
    scheme: str,
    encrypted: Certificate,
    plain_key: str,
    caplog: pytest.LogCaptureFixture,
    package_objects: Objects,
) -> None:
    caplog.set_level("DEBUG")
    for right in (True, False):
        async with (
            FakeCluster() as cluster,
            ProxyServer(scheme, credentials=f"{MARKER}:{MARKER}") as proxy,
        ):
            common = {
                "bootstrap_servers": cluster.bootstrap_servers,
                "security_protocol": "SSL",  # which the broker does not support
                "proxy_url": proxy.url(f"{MARKER}:{MARKER}{'' if right else 'x'}"),
            }
            cert, key = encrypted.cert.read_text(), encrypted.key.read_text()
            for own in (
                {"ssl_certfile": cert, "ssl_keyfile": key, "ssl_password": MARKER},
                {"ssl_certfile": cert, "ssl_keyfile": key, "ssl_password": f"{MARKER}x"},
                {"ssl_certfile": encrypted.cert, "ssl_keyfile": key.replace("E", "F")},
                {"ssl_certfile": cert + plain_key},
                {"ssl_certfile": cert, "ssl_keyfile": plain_key},
                {"ssl_certfile": cert, "ssl_keyfile": plain_key.replace("E", "F")},
                {"ssl_certfile": cert, "ssl_keyfile": "".join(plain_key.splitlines()[2:-1])},
                {"ssl_cafile": plain_key},
                {"ssl_cadata": plain_key},
            ):
                said = await everything_said({**common, **own}, package_objects)
                assert MARKER not in said
                for line in plain_key.splitlines()[2:-1]:
                    assert line not in said
    assert MARKER not in caplog.text


@pytest.mark.parametrize(
    "invalid",
    [
        {"proxy_url": f"ftp://{MARKER}:{MARKER}@proxy"},
        {"proxy_url": f"http://{MARKER}:{MARKER}@proxy:port"},
        {"proxy_url": f"socks5://ann:{MARKER * 100}@proxy"},
        {"ssl_password": MARKER},
        {"ssl_password": [MARKER], "security_protocol": "SSL"},
        {"ssl_keyfile": f"-----BEGIN {MARKER}", "security_protocol": "SSL"},
        {"ssl_certfile": f"-----BEGIN {MARKER}", "security_protocol": "SSL"},
        {"ssl_cadata": [MARKER], "security_protocol": "SSL"},
        {"sasl_plain_password": [MARKER], "security_protocol": "SASL_PLAINTEXT"},
        {"sasl_plain_password": MARKER, "security_protocol": "SASL_PLAINTEXT"},
    ],
)
async def test_errors_of_invalid_options_hide_the_secret(invalid: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        AIOKafkaProducer(**invalid)
    # Without the source lines of this file, which contain the marker's name only.
    assert MARKER not in "".join(traceback.format_exception(caught.value))


async def test_unencodable_secrets_stay_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone surrogate comes from an environment variable that is not in UTF-8."""
    secret = f"{MARKER}\udcff"
    monkeypatch.setenv("IDENTITY_ENDPOINT", "http://127.0.0.1:1/token")
    monkeypatch.setenv("IDENTITY_HEADER", f"{MARKER}\n")
    url = "https://login.example.com/token"
    mechanisms: list[OAuthBearer | AwsMskIam] = [
        *(
            OAuthBearer(provider)
            for provider in (
                ClientCredentials(url, "me", secret),
                ClientCredentials(url, "me", secret, urlencode_credentials=True),
                JwtBearer(url, lambda: secret),
                MskIam("eu-west-1", credentials=AwsCredentials("AKIA", secret)),
                AzureManagedIdentity("orders.servicebus.windows.net"),
            )
        ),
        AwsMskIam(AwsCredentials("AKIA", secret), "eu-west-1"),
        AwsMskIam(AwsCredentials("AKIA", "key", secret), "eu-west-1"),
    ]
    for mechanism in mechanisms:
        with pytest.raises(KafkaError) as caught:
            await mechanism.begin("broker")
        error: BaseException | None = caught.value
        while error is not None:
            assert MARKER not in f"{error!r} {error}"
            error = error.__cause__ or error.__context__


@pytest.mark.parametrize("encoded", [False, True])
async def test_a_secret_that_the_server_repeats_stays_hidden(encoded: bool) -> None:
    secret = f"{MARKER} & more"

    async def repeat(request: HttpRequest) -> HttpResponse:
        sent = request.headers["Authorization"]
        return HttpResponse(401, json.dumps({"error": f"{secret} {sent}"}).encode())

    url = "https://login.example.com/token"
    source = ClientCredentials(url, "me", secret, urlencode_credentials=encoded, fetch=repeat)
    with pytest.raises(AuthenticationFailedError) as caught:
        await source.token()
    assert str(caught.value).endswith("401 *** Basic ***")


def test_a_jwt_in_place_of_its_path_is_not_shown() -> None:
    jwt, url = f"eyJhbGciOiJub25lIn0.{MARKER}.c2ln", "https://login.example.com/token"
    for wrong in (
        lambda: TokenFile(jwt),
        lambda: JwtBearer(url, jwt),
        lambda: ClientCredentials(url, client_assertion=jwt),
    ):
        with pytest.raises(KafkaConfigurationError, match="not the JWT itself") as caught:
            wrong()
        assert MARKER not in str(caught.value)


async def test_token_sources_hide_their_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, package_objects: Objects
) -> None:
    caplog.set_level("DEBUG")
    (tmp_path / "jwt").write_text(MARKER)

    async def refuse(request: HttpRequest) -> HttpResponse:
        assert MARKER not in repr(request)
        return HttpResponse(401, b'{"error": "invalid_client"}')

    url = "https://login.example.com/token"
    providers = [
        ClientCredentials(url, "me", MARKER, fetch=refuse),
        ClientCredentials(url, "me", client_assertion=str(tmp_path / "jwt"), fetch=refuse),
        JwtBearer(url, str(tmp_path / "jwt"), fetch=refuse),
        TokenFile(str(tmp_path / "jwt")),
        MskIam("eu-west-1", credentials=AwsCredentials("AKIA", MARKER, MARKER)),
    ]
    for provider in providers:
        assert MARKER not in f"{provider!r} {provider}"
        said = []
        try:
            await provider.token()
        except (KafkaError, ValueError) as error:
            said += traceback.format_exception(error)
        assert MARKER not in "".join(said)
        assert MARKER not in f"{provider!r} {provider}"
    assert MARKER not in caplog.text
    assert MARKER not in reprs(package_objects())
