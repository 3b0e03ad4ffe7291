"""The users of a cluster: passwords for PLAIN, credentials for SCRAM (KIP-554). No I/O.

A real Kafka stores them in its JAAS configuration and its metadata. As there, the APIs access only
the SCRAM credentials.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from aiokafka_lite.testing.security.credentials import ScramCredential, derive
from aiokafka_lite.testing.storage.journal import Journal

__all__ = [
    "LEAST_ITERATIONS",
    "MECHANISMS",
    "MOST_ITERATIONS",
    "PLAIN",
    "SCRAM_MECHANISMS",
    "Users",
]

PLAIN: Final = "PLAIN"
SCRAM_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Mechanisms by their number in KIP-554."""

MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS.values())
LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384
_JOURNAL_KIND: Final = "user"


class _Password(NamedTuple):
    """A credential that is not derived before its first use: deriving takes milliseconds."""

    password: str
    salt: bytes


class Users:
    """The users' credentials by name and mechanism.

    Args:
        new_salt: Returns a salt, which depends on the cluster's seed.
        journal: Stores the users across restarts.
    """

    def __init__(self, new_salt: Callable[[], bytes], journal: Journal | None = None) -> None:
        self._new_salt = new_salt
        self._journal = journal or Journal()
        self._passwords: dict[str, str] = {}
        self._credentials: dict[tuple[str, str], ScramCredential | _Password] = {}
        for (name, mechanism), value in self._journal.entries(_JOURNAL_KIND):
            self._restore(str(name), str(mechanism), value)

    def put(self, name: str, password: str, mechanisms: Iterable[str] = MECHANISMS) -> None:
        """Add a user, or change a password.

        Args:
            name: The user name, without the "User:" of its principal.
            password: The password in plain text.
            mechanisms: The mechanisms that accept the password.

        Raises:
            ValueError: The name or password is empty, or a mechanism does not use passwords.
        """
        if not name or not password:
            raise ValueError("the user name and the password must not be empty")
        for mechanism in mechanisms:
            if mechanism == PLAIN:
                self._passwords[name] = password
                self._journal.note(_JOURNAL_KIND, (name, PLAIN), {"password": password})
            elif mechanism in MECHANISMS:
                salt = self._new_salt()
                self._credentials[name, mechanism] = _Password(password, salt)
                value = {"password": password, "salt": salt.hex()}
                self._journal.note(_JOURNAL_KIND, (name, mechanism), value)
            else:
                raise ValueError(f"{mechanism} does not use passwords; use one of {MECHANISMS}")

    def remove(self, name: str) -> None:
        """Remove a user; its open connections stay. Does nothing if it does not exist."""
        for mechanism in MECHANISMS:
            self.remove_credential(name, mechanism)

    def password_of(self, name: str) -> str | None:
        """Return the password for PLAIN, or None if there is no such user."""
        return self._passwords.get(name)

    def credential(self, name: str, mechanism: str) -> ScramCredential | None:
        """Return the credential for a SCRAM mechanism, or None if there is no such user."""
        kept = self._credentials.get((name, mechanism))
        if isinstance(kept, _Password):
            kept = derive(mechanism, kept.password, kept.salt, LEAST_ITERATIONS)
            self._credentials[name, mechanism] = kept
        return kept

    def put_credential(self, name: str, mechanism: str, credential: ScramCredential) -> None:
        """Set the credential for a SCRAM mechanism."""
        self._credentials[name, mechanism] = credential
        value = {
            "salt": credential.salt.hex(),
            "stored_key": credential.stored_key.hex(),
            "server_key": credential.server_key.hex(),
            "iterations": credential.iterations,
        }
        self._journal.note(_JOURNAL_KIND, (name, mechanism), value)

    def remove_credential(self, name: str, mechanism: str) -> None:
        """Remove a user's credential for a mechanism."""
        if mechanism == PLAIN:
            known = name in self._passwords
        else:
            known = (name, mechanism) in self._credentials
        if known:
            self._journal.note(_JOURNAL_KIND, (name, mechanism), None)
        if mechanism == PLAIN:
            self._passwords.pop(name, None)
        else:
            self._credentials.pop((name, mechanism), None)

    def scram_users(self) -> Iterator[str]:
        """Yield the names of all users with a SCRAM credential, each once."""
        yield from dict.fromkeys(name for name, _ in self._credentials)

    def _restore(self, name: str, mechanism: str, value: Mapping[str, Any]) -> None:
        if mechanism == PLAIN:
            self._passwords[name] = value["password"]
            return
        salt = bytes.fromhex(value["salt"])
        if "password" in value:
            self._credentials[name, mechanism] = _Password(value["password"], salt)
            return
        self._credentials[name, mechanism] = ScramCredential(
            salt,
            bytes.fromhex(value["stored_key"]),
            bytes.fromhex(value["server_key"]),
            value["iterations"],
        )
