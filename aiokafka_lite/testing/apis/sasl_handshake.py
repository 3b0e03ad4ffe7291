"""SaslHandshake, v0-v1: the client chooses a mechanism (KIP-43).

After v0 it sends bare tokens, after v1 SaslAuthenticate requests (KIP-152). A client that requests
an unsupported mechanism receives the supported ones; then the connection closes after a delay.
"""

from aiokafka_lite.errors import (
    BrokerResponseError,
    IllegalSaslStateError,
    UnsupportedSaslMechanismError,
)
from aiokafka_lite.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from aiokafka_lite.testing.context import CloseConnection, Farewell, RequestContext
from aiokafka_lite.testing.security.authentication import NotAdmitted


def handle(
    request: SaslHandshakeRequest, context: RequestContext
) -> SaslHandshakeResponse | Farewell:
    authentication = context.session.authentication
    try:
        context.check()
        if authentication is None:
            raise IllegalSaslStateError("this listener does not use SASL")
        authentication.on_handshake(request.mechanism, context.version)
    except NotAdmitted as reason:
        raise CloseConnection(str(reason)) from reason
    except UnsupportedSaslMechanismError as error:
        offered = [] if authentication is None else authentication.mechanisms
        return Farewell(SaslHandshakeResponse(error_code=error.errno, mechanisms=offered))
    except BrokerResponseError as error:
        return SaslHandshakeResponse(error_code=error.errno)
    return SaslHandshakeResponse(mechanisms=authentication.mechanisms)
