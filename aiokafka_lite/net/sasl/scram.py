"""SASL/SCRAM: both sides prove that they know the password without sending it.

Source: RFC 5802, RFC 7677; KIP-84, KIP-48 (delegation tokens). As in the Java client, names and
passwords are plain UTF-8, without SASLprep. There is no channel binding.

The broker chooses the number of hash iterations. It is bounded by `MOST_ITERATIONS`, and hashing
runs in a thread, so that no broker can block the event loop.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Final, Literal

from aiokafka_lite.errors import AuthenticationFailedError
from aiokafka_lite.net.authenticate import Exchange
from aiokafka_lite.net.broker_text import shown
from aiokafka_lite.net.sasl.text import encoded
from aiokafka_lite.net.slow_exchange import SlowExchange

LEAST_ITERATIONS: Final = 4096  # as in Kafka's client: fewer make the password easy to guess
MOST_ITERATIONS: Final = 1_000_000  # about 0.4 s of CPU time
NO_CHANNEL_BINDING: Final = "n,,"


class Scram:
    """One user's name and password, for one hash.

    Args:
        algorithm: "SHA-256" or "SHA-512".
        username: The user name at the broker.
        password: The password, which is never sent.
        tokenauth: True if they are the id and the HMAC, in base64, of a delegation token (KIP-48).

    Raises:
        KafkaConfigurationError: The name or the password cannot be encoded.
    """

    def __init__(
        self,
        algorithm: Literal["SHA-256", "SHA-512"],
        username: str,
        password: str,
        tokenauth: bool = False,
    ) -> None:
        self.name = f"SCRAM-{algorithm}"
        self._hash = algorithm.replace("-", "").lower()
        encoded(username, "user name")
        self._username = username
        self._extension = ",tokenauth=true" if tokenauth else ""
        self.hint = (
            ": the delegation token may have expired, been removed, or not have reached this "
            "broker yet"
            if tokenauth
            else ""
        )
        self._password = encoded(password, "password")
        self._salted: tuple[bytes, int, bytes] | None = None

    async def begin(self, host: str) -> Exchange:
        return SlowExchange(self._exchange(secrets.token_urlsafe(24)), self.name)

    def _exchange(self, nonce: str) -> Exchange:
        escaped = self._username.replace("=", "=3D").replace(",", "=2C")
        client_first = f"n={escaped},r={nonce}{self._extension}"
        server_first = yield (NO_CHANNEL_BINDING + client_first).encode()

        said = _attributes(server_first)
        server_nonce = said.get("r", "")
        if not server_nonce.startswith(nonce) or server_nonce == nonce:
            raise AuthenticationFailedError(
                f"{self.name}: the broker's nonce does not begin with the client's"
            )
        salted = self._salted_password(_base64(said.get("s")), _iterations(said.get("i")))
        client_key = self._hmac(salted, b"Client Key")
        binding = base64.b64encode(NO_CHANNEL_BINDING.encode()).decode()
        without_proof = f"c={binding},r={server_nonce}"
        signed = ",".join((client_first, server_first.decode(), without_proof)).encode()
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_final = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

        said = _attributes(server_final)
        if "e" in said:
            raise AuthenticationFailedError(f"{self.name}: the broker refused: {shown(said['e'])}")
        expected = self._hmac(self._hmac(salted, b"Server Key"), signed)
        if not hmac.compare_digest(_base64(said.get("v")), expected):
            raise AuthenticationFailedError(
                f"{self.name}: the broker could not prove that it knows the password"
            )

    def _salted_password(self, salt: bytes, iterations: int) -> bytes:
        """Return the salted password. It is slow by design, so the last one is cached: every
        broker has the same salt, except for delegation tokens."""
        kept = self._salted  # once: another exchange, in its own thread, may replace it
        if kept is None or kept[:2] != (salt, iterations):
            derived = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
            self._salted = kept = (salt, iterations, derived)
        return kept[2]

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)

    def __repr__(self) -> str:
        return f"<SASL/{self.name}>"


def _attributes(message: bytes) -> dict[str, str]:
    """Parse `a=1,b=2` into a dict by letter; of duplicates the first one counts."""
    attributes: dict[str, str] = {}
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError as error:
        raise AuthenticationFailedError("the broker's SCRAM message is not UTF-8") from error
    for part in parts:
        letter, equals, value = part.partition("=")
        if not equals or len(letter) != 1:
            raise AuthenticationFailedError(
                f"the broker's SCRAM message is malformed: {shown(part)!r}"
            )
        attributes.setdefault(letter, value)
    if "m" in attributes:
        raise AuthenticationFailedError("the broker demands an unknown SCRAM extension")
    return attributes


def _base64(value: str | None) -> bytes:
    try:
        decoded = base64.b64decode(value or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise AuthenticationFailedError("the broker's SCRAM message is not valid base64") from error
    if not decoded:
        raise AuthenticationFailedError("the broker's SCRAM message lacks its salt or proof")
    return decoded


def _iterations(value: str | None) -> int:
    count = 0
    # int() raises ValueError for thousands of digits.
    if value and len(value) <= len(str(MOST_ITERATIONS)) and value.isascii() and value.isdecimal():
        count = int(value)
    if not LEAST_ITERATIONS <= count <= MOST_ITERATIONS:
        raise AuthenticationFailedError(
            f"the broker asks for {value and shown(value)} SCRAM iterations; this"
            f" client accepts {LEAST_ITERATIONS} to {MOST_ITERATIONS}"
        )
    return count
