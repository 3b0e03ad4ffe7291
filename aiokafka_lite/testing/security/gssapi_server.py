"""The server side of GSSAPI (RFC 4752) with a stand-in for Kerberos that has no cryptography.

It has the messages of a real exchange in their order: the client's ticket, the broker's answer, an
empty token, the offer of security layers, the choice of none. A ticket is the text `ticket of USER
for SERVICE`; a wrapped message begins with `wrapped:`.
"""

import re
from typing import Final

from aiokafka_lite.testing.security.sasl_exchange import SaslExchange, SaslRefused
from aiokafka_lite.testing.security.users import Users

__all__ = ["GSSAPI", "GssapiExchange"]

GSSAPI: Final = "GSSAPI"

_TICKET: Final = re.compile(rb"ticket of (?P<user>[^ ]+) for (?P<service>[^ ]+@[^ ]+)")
_WRAPPED: Final = b"wrapped:"
_OFFER: Final = b"\x01\x01\x00\x00"  # no security layer; 64 KiB, as Java's server
_CHOICE: Final = b"\x01\x00\x00\x00"


class GssapiExchange(SaslExchange):
    """Three messages, the last of which ends the exchange without an answer.

    Args:
        users: The users that have tickets, whose passwords do not matter.
    """

    mechanism = GSSAPI
    answers_last = False

    def __init__(self, users: Users) -> None:
        self._users = users
        self._client: str | None = None  # once its ticket was accepted
        self._offered = False

    def on_message(self, message: bytes) -> bytes:
        if self._client is None:
            ticket = _TICKET.fullmatch(message)
            if ticket is None:
                raise SaslRefused("the message is not a ticket")
            client = ticket["user"].decode("utf-8", "replace")
            if self._users.password_of(client) is None:
                raise SaslRefused(f"the ticket is of the unknown user {client}")
            self._client = client
            return b"accepted"
        if not self._offered:
            if message:
                raise SaslRefused("an empty message must follow the broker's answer")
            self._offered = True
            return _WRAPPED + _OFFER
        if not message.startswith(_WRAPPED + _CHOICE):
            raise SaslRefused("the client does not choose the security layer 'none'")
        authorization_id = message.removeprefix(_WRAPPED + _CHOICE).decode("utf-8", "replace")
        if authorization_id not in ("", self._client):
            raise SaslRefused("the authorization id is different from the principal")
        self.user = self._client
        return b""
