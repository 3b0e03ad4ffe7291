"""Identities that a cloud gives to its machines: Azure and Google Cloud."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from aiokafka_lite.errors import AuthenticationFailedError, KafkaConfigurationError
from aiokafka_lite.oauth.grants import read_assertion
from aiokafka_lite.oauth.token_http import Endpoint, Fetch, HttpRequest, check_url, token_of
from aiokafka_lite.oauth.token_source import Token, TokenSource

__all__ = ["AzureManagedIdentity", "AzureWorkloadIdentity", "GoogleCloud"]

_IMDS: Final = "http://169.254.169.254/metadata/identity/oauth2/token"
_GOOGLE: Final = (
    "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default"
)
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class AzureManagedIdentity(TokenSource):
    """Tokens of a managed identity, for Azure Event Hubs. Not in aiokafka.

    Works on virtual machines, AKS nodes and, by the variables IDENTITY_ENDPOINT and
    IDENTITY_HEADER, in App Service and Functions.

    Args:
        namespace: The Event Hubs namespace's host, "NAME.servicebus.windows.net".
        client_id: Of a user-assigned identity; None: the system-assigned one.
        extensions, timeout, fetch: As in `ClientCredentials`.
    """

    def __init__(
        self,
        namespace: str,
        *,
        client_id: str | None = None,
        extensions: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        fetch: Fetch | None = None,
    ) -> None:
        super().__init__(extensions=extensions)
        self._resource = f"https://{_host(namespace)}"
        self._client_id = client_id
        self._endpoint = Endpoint(fetch, None, timeout, proxied=False)

    async def fetch(self) -> Token:
        """Request a token; raises as `ClientCredentials.fetch`."""
        url, version, headers = _IMDS, "2018-02-01", {"Metadata": "true"}
        if service := os.environ.get("IDENTITY_ENDPOINT"):
            url = check_url("IDENTITY_ENDPOINT", service, internal=True)
            secret = os.environ.get("IDENTITY_HEADER", "")
            if not (secret.isascii() and secret.isprintable()):
                # The error of `http.client` would show it.
                raise AuthenticationFailedError(
                    "the environment variable IDENTITY_HEADER cannot be sent as an HTTP header"
                )
            version, headers = "2019-08-01", {"X-IDENTITY-HEADER": secret}
        query = {"api-version": version, "resource": self._resource}
        if self._client_id is not None:
            query["client_id"] = self._client_id
        request = HttpRequest("GET", f"{url}?{urlencode(query)}", headers)
        return await self._endpoint.token(request, headers.values())

    def __repr__(self) -> str:
        return f"<AzureManagedIdentity for {self._resource}>"


class AzureWorkloadIdentity(TokenSource):
    """Tokens of a Kubernetes workload identity, for Azure Event Hubs. Not in aiokafka.

    AKS sets AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_FEDERATED_TOKEN_FILE and
    AZURE_AUTHORITY_HOST in the pod.

    Args:
        namespace: The Event Hubs namespace's host, "NAME.servicebus.windows.net".
        extensions, timeout, fetch: As in `ClientCredentials`.

    Raises:
        KafkaConfigurationError: One of the variables is not set.
    """

    def __init__(
        self,
        namespace: str,
        *,
        extensions: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        fetch: Fetch | None = None,
    ) -> None:
        super().__init__(extensions=extensions)
        self._scope = f"https://{_host(namespace)}/.default"
        authority = os.environ.get("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com/")
        tenant = _variable("AZURE_TENANT_ID")
        self._url = check_url(
            "AZURE_AUTHORITY_HOST", f"{authority.rstrip('/')}/{tenant}/oauth2/v2.0/token"
        )
        self._client_id = _variable("AZURE_CLIENT_ID")
        self._file = _variable("AZURE_FEDERATED_TOKEN_FILE")
        self._endpoint = Endpoint(fetch, None, timeout)

    async def fetch(self) -> Token:
        """Request a token; raises as `ClientCredentials.fetch`."""
        assertion = read_assertion(self._file)
        form = {
            "grant_type": "client_credentials",
            "client_id": self._client_id,
            "scope": self._scope,
            "client_assertion_type": _ASSERTION_TYPE,
            "client_assertion": assertion,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        request = HttpRequest("POST", self._url, headers, urlencode(form).encode())
        return await self._endpoint.token(request, [assertion])

    def __repr__(self) -> str:
        return f"<AzureWorkloadIdentity {self._client_id!r}>"


class GoogleCloud(TokenSource):
    """Tokens of the machine's service account, for Google's managed Kafka. Not in aiokafka.

    Args:
        extensions, timeout, fetch: As in `ClientCredentials`.
    """

    def __init__(
        self,
        *,
        extensions: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        fetch: Fetch | None = None,
    ) -> None:
        super().__init__(extensions=extensions)
        self._endpoint = Endpoint(fetch, None, timeout, proxied=False)

    async def fetch(self) -> Token:
        """Request a token from the metadata server; raises as `ClientCredentials.fetch`."""
        headers = {"Metadata-Flavor": "Google"}
        account = await self._endpoint.request(
            HttpRequest("GET", f"{_GOOGLE}/?recursive=true", headers)
        )
        email = account.get("email")
        if not isinstance(email, str):
            raise AuthenticationFailedError("Google's metadata server returned no service account")
        url = f"{_GOOGLE}/token"
        found = token_of(url, await self._endpoint.request(HttpRequest("GET", url, headers)))
        now = int(time.time())
        parts = (
            json.dumps({"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}),
            json.dumps(
                {
                    "exp": int(found.expires_at),
                    "iat": now,
                    "iss": "Google",
                    "sub": email,
                    "scope": "kafka",
                }
            ),
            found.value,
        )
        value = ".".join(
            base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts
        )
        return Token(value, found.expires_at, now)


def _host(namespace: str) -> str:
    if not namespace or "/" in namespace:
        raise KafkaConfigurationError(
            f"`namespace` should be a host like 'NAME.servicebus.windows.net', not {namespace!r}"
        )
    return namespace.partition(":")[0]


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise KafkaConfigurationError(
            f"the environment variable {name} is not set: is the pod's service account labelled "
            "for Azure workload identity?"
        )
    return value
