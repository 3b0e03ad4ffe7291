"""The server's SCRAM credential of a password (RFC 5802)."""

import hashlib
import hmac
from typing import Final, NamedTuple

__all__ = ["HASHES", "ScramCredential", "credential_of", "derive"]

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class ScramCredential(NamedTuple):
    """Verifies that a client knows the password, without containing it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def derive(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential of a password."""
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    return credential_of(mechanism, salted, salt, iterations)


def credential_of(
    mechanism: str, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a salted and hashed password."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return ScramCredential(
        salt,
        stored_key=hashlib.new(name, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", name),
        iterations=iterations,
    )
