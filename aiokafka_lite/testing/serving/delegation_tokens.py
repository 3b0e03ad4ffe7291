"""Delegation tokens (KIP-48), as a broker has them that was not configured for them: not at all.

Who has not authenticated may not even ask; everybody else is told that they are disabled.
"""

from aiokafka_lite.errors import (
    BrokerResponseError,
    DelegationTokenAuthDisabled,
    DelegationTokenRequestNotAllowed,
)
from aiokafka_lite.testing.client_session import ANONYMOUS
from aiokafka_lite.testing.context import RequestContext

__all__ = ["no_time", "refusal_of"]


def refusal_of(context: RequestContext) -> BrokerResponseError:
    """What answers any request about tokens."""
    try:
        context.check()
    except BrokerResponseError as injected:
        return injected
    if context.session.principal == ANONYMOUS:
        return DelegationTokenRequestNotAllowed("token requests require an authenticated client")
    return DelegationTokenAuthDisabled("no secret key for delegation tokens is configured")


def no_time(refusal: BrokerResponseError) -> int:
    """What a refusal says instead of a time: Kafka's broker says -1, and its controller 0."""
    return 0 if isinstance(refusal, DelegationTokenAuthDisabled) else -1
