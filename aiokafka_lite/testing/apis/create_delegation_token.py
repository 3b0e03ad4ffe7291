"""CreateDelegationToken, v0-v3: disabled, as on a broker without a secret for tokens."""

from aiokafka_lite.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.delegation_tokens import refusal_of


def handle(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    kind, _, name = context.session.principal.partition(":")
    response = CreateDelegationTokenResponse(
        refusal_of(context).errno,
        kind,
        name,
        kind,
        name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    if request.owner_principal_name:
        response.principal_type = request.owner_principal_type or ""
        response.principal_name = request.owner_principal_name
    return response
