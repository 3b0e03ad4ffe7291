"""AWS MSK with IAM access control, over OAUTHBEARER.

The token is a signed URL of the action `kafka-cluster:Connect`; brokers verify the signature, so no
request is sent.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping

from aiokafka_lite._version import __version__
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.net.aws.aws_credentials import (
    REGION,
    AwsCredentials,
    CredentialSource,
    CurrentCredentials,
    region_of_environment,
)
from aiokafka_lite.net.aws.aws_signer import presigned_query
from aiokafka_lite.oauth.token_source import Token, TokenSource

__all__ = ["MskIam"]


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
        if not isinstance(region, str) or not REGION.fullmatch(region):
            raise KafkaConfigurationError(
                f"`region` should be the cluster's region, such as 'eu-west-1', not {region!r}: "
                "pass it or set AWS_REGION"
            )
        self._region = region
        self._credentials = CurrentCredentials(credentials)

    async def fetch(self) -> Token:
        """Sign a token.

        Raises:
            AuthenticationFailedError: There are no credentials, or they have expired.
            KafkaConnectionError: botocore failed to get credentials.
        """
        now = time.time()
        credentials, lifetime = await self._credentials.get(now)
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

    def __repr__(self) -> str:
        return f"<MskIam {self._region}>"
