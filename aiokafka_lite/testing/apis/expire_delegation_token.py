"""ExpireDelegationToken, v0-v2: disabled, as on a broker without a secret for tokens."""

from aiokafka_lite.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.serving.token_refusal import no_time, refusal_of


def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    refusal = refusal_of(context)
    return ExpireDelegationTokenResponse(refusal.errno, no_time(refusal))
