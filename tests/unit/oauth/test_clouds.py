"""Cloud identities: the requests, and the contents of the token."""

import base64
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaConfigurationError,
    KafkaConnectionError,
)
from aiokafka_lite.oauth import (
    AzureManagedIdentity,
    AzureWorkloadIdentity,
    GoogleCloud,
    HttpRequest,
    HttpResponse,
    TokenFile,
)
from tests.oidc_server import unsigned_jwt


class Service:
    """Answers requests by the end of their path."""

    def __init__(self, **answers: dict[str, Any]) -> None:
        self.answers = answers
        self.requests: list[HttpRequest] = []

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        name = urlsplit(request.url).path.rstrip("/").rpartition("/")[2]
        return HttpResponse(200, json.dumps(self.answers[name]).encode())


async def test_azure_managed_identity_uses_the_instance_metadata_service() -> None:
    service = Service(token={"access_token": "a", "expires_in": "3599"})
    provider = AzureManagedIdentity(
        "shop.servicebus.windows.net", client_id="user-assigned", fetch=service
    )
    assert await provider.token() == "a"
    (request,) = service.requests
    assert request.headers == {"Metadata": "true"}
    assert urlsplit(request.url).hostname == "169.254.169.254"
    assert parse_qs(urlsplit(request.url).query) == {
        "api-version": ["2018-02-01"],
        "resource": ["https://shop.servicebus.windows.net"],
        "client_id": ["user-assigned"],
    }


async def test_azure_managed_identity_of_app_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDENTITY_ENDPOINT", "http://10.0.0.1:8081/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "secret")
    service = Service(token={"access_token": "a", "expires_in": 60})
    await AzureManagedIdentity("shop.servicebus.windows.net:9093", fetch=service).token()
    (request,) = service.requests
    assert request.headers == {"X-IDENTITY-HEADER": "secret"}
    assert request.url.startswith("http://10.0.0.1:8081/msi/token?api-version=2019-08-01&")


async def test_azure_workload_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(KafkaConfigurationError, match="AZURE_TENANT_ID is not set"):
        AzureWorkloadIdentity("shop.servicebus.windows.net")
    (tmp_path / "token").write_text("projected")
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_CLIENT_ID", "client")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
    service = Service(token={"access_token": "a", "expires_in": 60})
    provider = AzureWorkloadIdentity("shop.servicebus.windows.net", fetch=service)
    assert await provider.token() == "a"
    (request,) = service.requests
    assert request.url == "https://login.microsoftonline.com/tenant/oauth2/v2.0/token"
    assert parse_qs((request.body or b"").decode()) == {
        "grant_type": ["client_credentials"],
        "client_id": ["client"],
        "scope": ["https://shop.servicebus.windows.net/.default"],
        "client_assertion_type": ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"],
        "client_assertion": ["projected"],
    }


async def test_google_token_names_its_service_account() -> None:
    service = Service(
        default={"email": "orders@shop.iam.gserviceaccount.com"},
        token={"access_token": "ya29.a", "expires_in": 3599},
    )
    value = await GoogleCloud(fetch=service).token()
    header, claims, token = (
        base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in value.split(".")
    )
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    found = json.loads(claims)
    assert (found["iss"], found["sub"]) == ("Google", "orders@shop.iam.gserviceaccount.com")
    assert 3500 < found["exp"] - time.time() < 3600
    assert token == b"ya29.a"
    assert all(each.headers == {"Metadata-Flavor": "Google"} for each in service.requests)


async def test_google_without_a_service_account_is_refused() -> None:
    with pytest.raises(AuthenticationFailedError, match="no service account"):
        await GoogleCloud(fetch=Service(default={"email": None})).token()


async def test_token_file_is_read_for_each_authentication(tmp_path: Path) -> None:
    file = tmp_path / "token"
    provider = TokenFile(file)
    for token in (unsigned_jwt(60), unsigned_jwt(60, "bob")):
        file.write_text(f" {token}\n")
        assert await provider.token() == token


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"half a", b"\0\0"])
async def test_unreadable_token_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(KafkaConnectionError, match=r"token (in|file) .*/token"):
        await TokenFile(file).token()
