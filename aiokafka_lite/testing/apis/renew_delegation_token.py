"""RenewDelegationToken, v0-v2: disabled, as on a broker without a secret for tokens."""

from aiokafka_lite.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.serving.token_refusal import no_time, refusal_of


def handle(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    refusal = refusal_of(context)
    return RenewDelegationTokenResponse(refusal.errno, no_time(refusal))
