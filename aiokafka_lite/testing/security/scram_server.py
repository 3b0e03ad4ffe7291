"""The server side of SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677, KIP-84). No I/O.

As in Kafka, names and passwords are used as UTF-8 bytes without SASLprep, and there is no channel
binding.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final

from aiokafka_lite.testing.security.credentials import HASHES, ScramCredential
from aiokafka_lite.testing.security.sasl_exchange import SaslExchange, SaslRefused
from aiokafka_lite.testing.security.users import Users

__all__ = ["ScramExchange"]

_NAME: Final = r"(?:[^\x00=,]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization_id>{_NAME}))?,)"
    rf"(?P<bare>(?:m=[^\x00,]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)"
    r"(?:,[a-zA-Z]+=[^\x00,]+)*)"
)
_FINAL: Final = re.compile(
    r"(?P<unproven>c=[a-zA-Z0-9/+=]+,r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)(?:,[a-zA-Z]+=[^\x00,]+)*)"
    r",p=(?P<proof>[a-zA-Z0-9/+=]+)"
)


class ScramExchange(SaslExchange):
    """Two messages: the user, then the proof of the password.

    Args:
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        users: The credentials.
        new_nonce: Returns the server's part of the nonce.
    """

    def __init__(self, mechanism: str, users: Users, new_nonce: Callable[[], str]) -> None:
        self.mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._users = users
        self._new_nonce = new_nonce
        self._credential: ScramCredential | None = None  # of the claimed user
        self._claimed = ""
        self._nonce = ""
        self._transcript = ""

    def on_message(self, message: bytes) -> bytes:
        text = message.decode("utf-8", "replace")
        if self.user is not None:
            raise SaslRefused("the SCRAM exchange is already complete")
        if self._credential is None:
            return self._on_first(text)
        return self._on_final(text, self._credential)

    def _on_first(self, text: str) -> bytes:
        first = _FIRST.fullmatch(text)
        if first is None:
            raise SaslRefused("Invalid SCRAM client first message format")
        self._claimed = first["name"].replace("=2C", ",").replace("=3D", "=")
        credential = self._users.credential(self._claimed, self.mechanism)
        if credential is None:
            raise SaslRefused("Authentication failed: Invalid user credentials")
        if first["authorization_id"] not in (None, self._claimed):
            raise SaslRefused(
                "Authentication failed: Client requested an authorization id that is different"
                " from username",
                shown=True,
            )
        self._credential = credential
        self._nonce = first["nonce"] + self._new_nonce()
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._transcript = f"{first['bare']},{answer}"
        return answer.encode()

    def _on_final(self, text: str, credential: ScramCredential) -> bytes:
        final = _FINAL.fullmatch(text)
        if final is None:
            raise SaslRefused("Invalid SCRAM client final message format")
        if final["nonce"] != self._nonce:
            raise SaslRefused("Invalid client nonce in the final client message.")
        transcript = f"{self._transcript},{final['unproven']}".encode()
        signature = hmac.digest(credential.stored_key, transcript, self._hash)
        try:
            proof = base64.b64decode(final["proof"], validate=True)
        except binascii.Error as error:
            raise SaslRefused(f"the client proof is not valid base64: {error}") from error
        if len(proof) != len(signature):
            raise SaslRefused("the client proof does not have the length of a hash")
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise SaslRefused("Invalid client credentials")
        self.user = self._claimed
        server_signature = hmac.digest(credential.server_key, transcript, self._hash)
        return b"v=" + base64.b64encode(server_signature)
