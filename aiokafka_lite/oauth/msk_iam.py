"""AWS MSK with IAM access control, over OAUTHBEARER.

The token is a signed URL of the action `kafka-cluster:Connect`; brokers verify the signature, so no
request is sent.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Mapping
from typing import Final

from aiokafka_lite._version import __version__
from aiokafka_lite.errors import AuthenticationFailedError, KafkaConfigurationError
from aiokafka_lite.oauth.aws_credentials import (
    AwsCredentials,
    BotocoreChain,
    CredentialSource,
    current,
    from_environment,
    region_of_environment,
)
from aiokafka_lite.oauth.aws_signer import presigned_query
from aiokafka_lite.oauth.token_source import Token, TokenSource

__all__ = ["MskIam"]

LIFETIME: Final = 900
"""Seconds, the most that brokers accept."""
_REGION: Final = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+")


class MskIam(TokenSource):
    """Tokens for Amazon MSK with IAM access control. Not in aiokafka.

    Args:
        region: The cluster's region; by default AWS_REGION or AWS_DEFAULT_REGION.
        credentials: `AwsCredentials`, or a function (or coroutine function) that returns the
            current ones. By default those of the environment variables; without them botocore's
            chain (`aiokafka_lite[aws]`): profiles, web identity, containers, instances.
        extensions: As in `TokenSource`.

    A token is valid for 15 minutes, or until its credentials expire. Pin AWS_ROLE_SESSION_NAME if
    a role is assumed: brokers refuse another principal when a client re-authenticates.

    Raises:
        KafkaConfigurationError: No region is given, or it is not a region's name.
    """

    def __init__(
        self,
        region: str | None = None,
        *,
        credentials: AwsCredentials | CredentialSource | None = None,
        extensions: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(extensions=extensions)
        region = region or region_of_environment()
        if not isinstance(region, str) or not _REGION.fullmatch(region):
            raise KafkaConfigurationError(
                f"`region` should be the cluster's region, such as 'eu-west-1', not {region!r}: "
                "pass it or set AWS_REGION"
            )
        self._region = region
        self._credentials = credentials
        self._chain: BotocoreChain | None = None

    async def fetch(self) -> Token:
        """Sign a token.

        Raises:
            AuthenticationFailedError: There are no credentials, or they have expired.
            KafkaConnectionError: botocore failed to get credentials.
        """
        credentials = await self._current()
        now = time.time()
        if credentials.expires_at <= now:
            raise AuthenticationFailedError(
                f"the AWS credentials {credentials.access_key_id} have expired"
            )
        lifetime = int(min(LIFETIME, max(credentials.expires_at - now, 1)))
        host = f"kafka.{self._region}.amazonaws.com"
        query = presigned_query(
            credentials,
            host=host,
            path="/",
            region=self._region,
            service="kafka-cluster",
            now=now,
            expires=lifetime,
            parameters={"Action": "kafka-cluster:Connect"},
        )
        # The user agent is not signed; it shows in AWS's logs.
        url = f"https://{host}/?{query}&User-Agent=aiokafka_lite%2F{__version__}"
        value = base64.urlsafe_b64encode(url.encode()).rstrip(b"=").decode()
        return Token(value, now + lifetime, now)

    async def _current(self) -> AwsCredentials:
        given = self._credentials
        if isinstance(given, AwsCredentials):
            return given
        if given is not None:
            return await current(given)
        found = from_environment()
        if found is not None:
            return found
        if self._chain is None:
            self._chain = BotocoreChain()
        return await self._chain()

    def __repr__(self) -> str:
        return f"<MskIam {self._region}>"
