"""ExpireDelegationToken, v0-v2: disabled, as on a broker without a secret for tokens."""

from aiokafka_lite.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.delegation_tokens import refusal_of


def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        error_code=refusal_of(context).errno, expiry_timestamp_ms=-1
    )
