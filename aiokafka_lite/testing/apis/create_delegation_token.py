"""CreateDelegationToken, v0-v3: disabled, as on a broker without a secret for tokens."""

from typing import Final

from aiokafka_lite.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenAuthorizationFailed,
)
from aiokafka_lite.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.serving.token_refusal import no_time, refusal_of

_REQUESTER_SINCE: Final = 3


def handle(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    principal = context.session.principal
    kind, _, name = principal.partition(":")
    refusal = refusal_of(context)
    if request.owner_principal_name and isinstance(refusal, DelegationTokenAuthDisabled):
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
        if owner != principal and not context.allows(Operation.CREATE_TOKENS, Resource.USER, owner):
            refusal = DelegationTokenAuthorizationFailed(
                f"no permission to create tokens for {owner}"
            )
    response = CreateDelegationTokenResponse(refusal.errno, kind, name)
    if context.version >= _REQUESTER_SINCE:
        response.token_requester_principal_type = kind
        response.token_requester_principal_name = name
    if no_time(refusal):
        response.issue_timestamp_ms = -1
        response.expiry_timestamp_ms = -1
        response.max_timestamp_ms = -1
    if request.owner_principal_name:
        response.principal_type = request.owner_principal_type or ""
        response.principal_name = request.owner_principal_name
    return response
