"""A GSS-API security context of the client's side, its credentials, and the errors of GSS.

Source: RFC 2743 (GSS-API), RFC 2744 (its C bindings); krb5_err.et of MIT Kerberos for the codes;
`KerberosError` of Java's client for those that it retries.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError, KafkaError

__all__ = [
    "KerberosLogin",
    "NewContext",
    "SecurityContext",
    "gss_failure",
]

LONGEST_TEXT: Final = 500
"""Maximum number of characters of GSS's text in an error."""

_KRB5: Final = 2529638912
"""Base of krb5_err.et's codes, as the unsigned minor status that GSS returns."""

_TEMPORARY: Final = {
    _KRB5 + 21: "KRB5KDC_ERR_CLIENT_NOTYET",  # this and the next: the clocks differ a little
    _KRB5 + 33: "KRB5KRB_AP_ERR_TKT_NYV",
    _KRB5 + 34: "KRB5KRB_AP_ERR_REPEAT",  # the detection of replays has false positives
    _KRB5 + 29: "KRB5KDC_ERR_SVC_UNAVAILABLE",
    _KRB5 + 156: "KRB5_KDC_UNREACH",
    _KRB5 + 220: "KRB5_REALM_CANT_RESOLVE",
}
"""Codes after which a retry may succeed; Java retries the first three, too."""


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """The credentials of a client.

    Attributes:
        principal: Principal such as "alice@EXAMPLE.COM"; None for the default of the credentials.
        keytab: File of the client's keys, from which tickets are obtained and renewed; None for
            KRB5_CLIENT_KTNAME.
        cache: Name of a credential cache with a ticket; None for KRB5CCNAME, or with a keytab for
            a cache in memory.
    """

    principal: str | None = None
    keytab: str | None = None
    cache: str | None = None

    def store(self) -> dict[str, str]:
        """Return the credential store of gss_acquire_cred_from; empty for GSS's defaults."""
        store: dict[str, str] = {}
        cache = self.cache
        if self.keytab is not None:
            store["client_keytab"] = self.keytab
            if cache is None:
                # One cache for all connections of a process with the same login.
                key = f"{self.keytab}\0{self.principal}".encode("utf-8", "surrogateescape")
                cache = f"MEMORY:aiokafka_lite-{hashlib.sha256(key).hexdigest()[:16]}"
        if cache is not None:
            store["ccache"] = cache
        return store

    def check(self) -> None:
        """Check that the keytab can be read: GSS's own text would not name it.

        Raises:
            AuthenticationFailedError: It cannot.
        """
        if self.keytab is None:
            return
        kind, colon, rest = self.keytab.partition(":")
        if colon and kind not in ("FILE", "WRFILE"):
            return  # not a file
        try:
            with open(rest if colon else self.keytab, "rb"):
                pass
        except (OSError, ValueError) as error:
            raise AuthenticationFailedError(
                f"GSSAPI: the keytab {self.keytab!r} cannot be read: "
                f"{getattr(error, 'strerror', None) or error}"
            ) from None

    def __str__(self) -> str:
        given = [
            f"{name} {value!r}"
            for name, value in (
                ("principal", self.principal),
                ("keytab", self.keytab),
                ("cache", self.cache),
            )
            if value is not None
        ]
        return ", ".join(given) or "the default credentials"


class SecurityContext(Protocol):
    """The client's side of a context with one broker. Calls may block."""

    @property
    def complete(self) -> bool:
        """True once both sides are authenticated."""
        ...

    def step(self, token: bytes | None) -> bytes:
        """Return the client's next token, maybe empty, after the broker's; None begins.

        Raises:
            AuthenticationFailedError: There are no credentials, or a token is not valid.
            KafkaConnectionError: The KDC did not answer.
        """
        ...

    def unwrap(self, message: bytes) -> bytes:
        """Return the content of the broker's message after checking its integrity.

        Raises:
            AuthenticationFailedError: The check failed.
        """
        ...

    def wrap(self, message: bytes) -> bytes:
        """Return a message with its integrity protected, not encrypted."""
        ...

    def close(self) -> None:
        """Free the context; idempotent."""
        ...


NewContext: TypeAlias = Callable[[KerberosLogin, str], SecurityContext]
"""Makes a context from credentials and the broker's service, such as "kafka@broker.example"."""


def gss_failure(login: KerberosLogin, service: str, minor: int, text: str) -> KafkaError:
    """Return the error for a failed call of GSS.

    Args:
        login: The client's credentials.
        service: The broker's service.
        minor: The minor status, which is Kerberos's own code.
        text: GSS's text for both statuses.
    """
    text = " ".join(text.split())[:LONGEST_TEXT]
    if minor & 0xFFFFFFFF in _TEMPORARY:
        return KafkaConnectionError(f"GSSAPI: the KDC issued no ticket for {service}: {text}")
    return AuthenticationFailedError(f"GSSAPI with {service} failed ({login}): {text}")
