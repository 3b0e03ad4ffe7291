"""DescribeDelegationToken, v0-v3: disabled, as on a broker without a secret for tokens."""

from aiokafka_lite.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.serving.token_refusal import refusal_of


def handle(
    request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=refusal_of(context).errno)
