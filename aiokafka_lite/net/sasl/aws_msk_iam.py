"""SASL/AWS_MSK_IAM: Amazon MSK with IAM access control, in AWS's own mechanism.

The client's only message is a signed request for the action `kafka-cluster:Connect` at the broker.
The broker verifies the signature and answers with the request's id.

Source: aws-msk-iam-auth, "Details on the AWS_MSK_IAM mechanism" in its README (version 2020_10_22).
"""

import json
import re
import time
from typing import Final

from aiokafka_lite._version import __version__
from aiokafka_lite.errors import AuthenticationFailedError, KafkaConfigurationError, KafkaError
from aiokafka_lite.net.authenticate import Exchange
from aiokafka_lite.net.aws.aws_credentials import (
    REGION,
    AwsCredentials,
    CredentialSource,
    CurrentCredentials,
    region_of_environment,
)
from aiokafka_lite.net.aws.aws_signer import presigned_parameters
from aiokafka_lite.net.broker_text import shown
from aiokafka_lite.net.sasl.text import failed

MESSAGE_VERSION: Final = "2020_10_22"
ACTION: Final = "kafka-cluster:Connect"
SERVICE: Final = "kafka-cluster"

LONGEST_ANSWER: Final = 64 * 1024
"""Maximum number of bytes of the broker's answer, which has about 100."""

_HOST: Final = re.compile(
    r"(?:.+\.)?kafka(?:-serverless)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\.?"
)


class AwsMskIam:
    """A client with AWS credentials.

    Args:
        credentials: `AwsCredentials` or a source of them; None for the environment variables and,
            without them, botocore's chain.
        region: The cluster's region; None for the one in the broker's host name, or else
            AWS_REGION or AWS_DEFAULT_REGION.

    Raises:
        KafkaConfigurationError: The region is not a region's name.
    """

    name = "AWS_MSK_IAM"
    hint = ""

    def __init__(
        self,
        credentials: AwsCredentials | CredentialSource | None = None,
        region: str | None = None,
    ) -> None:
        if region is not None and not REGION.fullmatch(region):
            raise KafkaConfigurationError(
                "`sasl_aws_region` should be the cluster's region, such as 'eu-west-1', not "
                f"{region!r}"
            )
        self._credentials = CurrentCredentials(credentials)
        self._region = region

    async def begin(self, host: str) -> Exchange:
        """Begin an exchange with a current signature.

        Raises:
            AuthenticationFailedError: There are no credentials, or they have expired.
            KafkaConfigurationError: The region is unknown.
            KafkaConnectionError: botocore or the source of the credentials failed.
        """
        region = self._region or region_of(host)
        now = time.time()
        try:
            credentials, lifetime = await self._credentials.get(now)
            message = first_message(credentials, host, region, now, lifetime)
        except KafkaError:
            raise
        except Exception as error:
            failure = failed("the source of the AWS credentials", error)
        else:
            return self._exchange(message)
        raise failure

    def _exchange(self, message: bytes) -> Exchange:
        answer = yield message
        if not answer:
            raise AuthenticationFailedError("AWS_MSK_IAM: the broker's answer is empty")
        if len(answer) > LONGEST_ANSWER:
            raise AuthenticationFailedError(
                f"AWS_MSK_IAM: the broker's answer of {len(answer)} bytes is longer than "
                f"{LONGEST_ANSWER}"
            )
        try:
            decoded = json.loads(answer)
        except (ValueError, RecursionError):
            decoded = None
        if not isinstance(decoded, dict) or decoded.get("version") != MESSAGE_VERSION:
            raise AuthenticationFailedError(
                f"AWS_MSK_IAM: the broker's answer is not of version {MESSAGE_VERSION}: "
                f"{shown(answer.decode(errors='replace'))!r}"
            )

    def __repr__(self) -> str:
        return "<SASL/AWS_MSK_IAM>"


def region_of(host: str) -> str:
    """Return the region of a broker of Amazon MSK, otherwise that of the environment variables.

    Raises:
        KafkaConfigurationError: None of them names one.
    """
    named = _HOST.fullmatch(host.lower())
    region = named["region"] if named is not None else region_of_environment()
    if region is None or not REGION.fullmatch(region):
        raise KafkaConfigurationError(
            f"AWS_MSK_IAM cannot derive the region from the broker's name {host!r}: pass "
            "`sasl_aws_region` or set AWS_REGION"
        )
    return region


def first_message(
    credentials: AwsCredentials, host: str, region: str, now: float, lifetime: int
) -> bytes:
    """Return the client's message.

    Args:
        host: The broker's name, which is signed.
        now: Seconds since the epoch.
        lifetime: Seconds that the signature is valid.
    """
    signed = presigned_parameters(
        credentials,
        host=host,
        path="/",
        region=region,
        service=SERVICE,
        now=now,
        expires=lifetime,
        parameters={"Action": ACTION},
    )
    message = {
        "version": MESSAGE_VERSION,
        "host": host,
        "user-agent": f"aiokafka_lite/{__version__}",
        **{name.lower(): value for name, value in signed.items()},
    }
    return json.dumps(message, separators=(",", ":")).encode()
