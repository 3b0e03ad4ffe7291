"""SaslAuthenticate, v0-v2: a token of the chosen mechanism (KIP-152).

v1 returns the session lifetime, after which the client must re-authenticate (KIP-368); v2 is
flexible. A rejection is delayed and then closes the connection, because a real broker slows down
password guessing.
"""

from aiokafka_lite.errors import BrokerResponseError, IllegalSaslStateError
from aiokafka_lite.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from aiokafka_lite.testing.context import Farewell, RequestContext


def handle(
    request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse | Farewell:
    authentication = context.session.authentication
    try:
        context.check()
        if authentication is None:
            raise IllegalSaslStateError("this listener does not use SASL")
        verdict = authentication.on_message(request.auth_bytes)
    except IllegalSaslStateError:
        return SaslAuthenticateResponse(
            error_code=IllegalSaslStateError.errno,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    except BrokerResponseError as error:
        return Farewell(
            SaslAuthenticateResponse(error_code=error.errno, error_message=error.args[0])
        )
    if verdict.user is not None:
        context.session.principal = f"User:{verdict.user}"
    return SaslAuthenticateResponse(
        error_message=None, auth_bytes=verdict.challenge, session_lifetime_ms=verdict.lifetime_ms
    )
