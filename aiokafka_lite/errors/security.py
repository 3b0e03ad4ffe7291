"""Broker errors about authentication, authorization and delegation tokens.

A class's docstring is Kafka's description of its code; how a client must react is in
`errors.table`.
"""

from aiokafka_lite.errors.base import BrokerResponseError
from aiokafka_lite.errors.client_errors import AuthenticationFailedError

__all__ = [
    "AuthorizationError",
    "ClusterAuthorizationFailedError",
    "DelegationTokenAuthDisabled",
    "DelegationTokenAuthorizationFailed",
    "DelegationTokenExpired",
    "DelegationTokenNotFound",
    "DelegationTokenOwnerMismatch",
    "DelegationTokenRequestNotAllowed",
    "GroupAuthorizationFailedError",
    "IllegalSaslStateError",
    "InvalidPrincipalType",
    "PrincipalDeserializationError",
    "SaslAuthenticationFailed",
    "SecurityDisabled",
    "TopicAuthorizationFailedError",
    "TransactionalIdAuthorizationFailed",
    "UnacceptableCredentialError",
    "UnsupportedSaslMechanismError",
]


class AuthorizationError(BrokerResponseError):
    """The principal lacks permission; the base class of every authorization error."""


class TopicAuthorizationFailedError(AuthorizationError, code=29):
    """Topic authorization failed."""


class GroupAuthorizationFailedError(AuthorizationError, code=30):
    """Group authorization failed."""


class ClusterAuthorizationFailedError(AuthorizationError, code=31):
    """Cluster authorization failed."""


class UnsupportedSaslMechanismError(BrokerResponseError, AuthenticationFailedError, code=33):
    """The broker does not support the requested SASL mechanism."""


class IllegalSaslStateError(BrokerResponseError, AuthenticationFailedError, code=34):
    """Request is not valid given the current SASL state."""


class TransactionalIdAuthorizationFailed(AuthorizationError, code=53):
    """Transactional Id authorization failed."""


class SecurityDisabled(BrokerResponseError, code=54):
    """Security features are disabled."""


class SaslAuthenticationFailed(BrokerResponseError, AuthenticationFailedError, code=58):
    """SASL Authentication failed."""


class DelegationTokenAuthDisabled(BrokerResponseError, code=61):
    """Delegation Token feature is not enabled."""


class DelegationTokenNotFound(BrokerResponseError, code=62):
    """Delegation Token is not found on server."""


class DelegationTokenOwnerMismatch(BrokerResponseError, code=63):
    """Specified Principal is not valid Owner/Renewer."""


class DelegationTokenRequestNotAllowed(BrokerResponseError, code=64):
    """Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation
    token authenticated channels.
    """


class DelegationTokenAuthorizationFailed(AuthorizationError, code=65):
    """Delegation Token authorization failed."""


class DelegationTokenExpired(BrokerResponseError, code=66):
    """Delegation Token is expired."""


class InvalidPrincipalType(BrokerResponseError, code=67):
    """Supplied principalType is not supported."""


class UnacceptableCredentialError(BrokerResponseError, code=93):
    """Requested credential would not meet criteria for acceptability."""


class PrincipalDeserializationError(BrokerResponseError, code=97):
    """Request principal deserialization failed during forwarding. This indicates an internal error
    on the broker cluster security setup.
    """
