"""Delegation tokens (KIP-48), which are disabled as on a broker without a secret key for them.

A client without authentication gets another error than an authenticated one.
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
    """Return the error for any request about tokens."""
    try:
        context.check()
    except BrokerResponseError as injected:
        return injected
    if context.session.principal == ANONYMOUS:
        return DelegationTokenRequestNotAllowed("token requests require an authenticated client")
    return DelegationTokenAuthDisabled("no secret key for delegation tokens is configured")


def no_time(refusal: BrokerResponseError) -> int:
    """Return the timestamp in a rejection: -1 from Kafka's broker, 0 from its controller."""
    return 0 if isinstance(refusal, DelegationTokenAuthDisabled) else -1
