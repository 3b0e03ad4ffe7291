"""Explains a failed TLS handshake in terms of this client's options.

OpenSSL reports the number of the broker's alert, and Java's brokers send few different numbers, so
each text lists the likely causes.

Source: RFC 8446, section 6.2 (alerts).
"""

import ssl
from typing import Final

from aiokafka_lite.errors import AuthenticationFailedError, KafkaError

_HOST_NAME: Final = (62, 64)
"""OpenSSL's verification codes for a certificate of another name or address."""
_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9
_UNKNOWN_AUTHORITY: Final = (2, 18, 19, 20, 21)
_NOT_STRICT: Final = range(80, 95)
"""Its codes for what violates RFC 5280 but is accepted without `VERIFY_X509_STRICT`."""

_REFUSALS: Final = {
    "ALERT_ACCESS_DENIED": "it denies access",
    "ALERT_BAD_CERTIFICATE": "bad certificate",
    "ALERT_CERTIFICATE_EXPIRED": "certificate expired",
    "ALERT_CERTIFICATE_REQUIRED": "certificate required",
    "ALERT_CERTIFICATE_REVOKED": "certificate revoked",
    "ALERT_CERTIFICATE_UNKNOWN": "certificate unknown",
    "ALERT_UNKNOWN_CA": "unknown authority",
    "ALERT_UNSUPPORTED_CERTIFICATE": "unsupported certificate",
}
"""Alerts by which a broker refuses this client's certificate, by the end of OpenSSL's name."""


def untrusted(host: str, port: int, error: ssl.SSLCertVerificationError) -> KafkaError:
    """Return the error for a broker's certificate that this client does not trust."""
    code = error.verify_code
    hint = ""
    if code in _HOST_NAME:
        hint = (
            f": connect to a name in the certificate, or have {host} added to it; "
            "`ssl_check_hostname=False` accepts any name"
        )
    elif code in _UNKNOWN_AUTHORITY:
        hint = ": pass the authority that signed it as `ssl_cafile`"
    elif code == _EXPIRED:
        hint = ": renew the broker's certificate, or check this machine's clock"
    elif code == _NOT_YET_VALID:
        hint = ": check this machine's clock"
    elif code in _NOT_STRICT:
        hint = (
            ", which the default contexts of Python 3.13 and newer reject: have the certificate "
            "issued again, clear `ssl.VERIFY_X509_STRICT` in the `verify_flags` of `ssl_context`, "
            "or pass `ssl_cafile` instead of a context"
        )
    return AuthenticationFailedError(
        f"the certificate of {host}:{port} is not trusted: {error.verify_message}{hint}"
    )


def refused(peer: str, error: BaseException | None, expired: str) -> KafkaError | None:
    """Return the error for an alert by which a broker refuses this client's certificate.

    Args:
        peer: The broker.
        error: Why the connection ended.
        expired: The text " expired on DATE" if the certificate has expired, else "".

    Returns:
        None if it is no such alert.
    """
    if not isinstance(error, ssl.SSLError):
        return None
    reason = _reason(error)
    for name, text in _REFUSALS.items():
        if reason.endswith(name):
            advice = "check `ssl_certfile` and `ssl_keyfile`, and whether the broker trusts them"
            if expired:
                advice = f"it{expired}"
            elif name == "ALERT_CERTIFICATE_REQUIRED":
                advice = "pass `ssl_certfile` and `ssl_keyfile`"
            return AuthenticationFailedError(
                f"{peer} refused this client's certificate, or the lack of one ({text}): {advice}"
            )
    return None


def explained(error: ssl.SSLError) -> str | None:
    """Return what an alert about the handshake itself means; None if it says enough."""
    reason = _reason(error)
    if reason.endswith(("ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL")):
        return (
            "the broker and this client have no TLS version in common: check "
            "`ssl_enabled_protocols` (this client needs at least TLS 1.2)"
        )
    if reason.endswith(("ALERT_HANDSHAKE_FAILURE", "NO_SHARED_CIPHER")):
        return (
            "the broker ended the TLS handshake: there is no cipher in common (`ssl_ciphers`), or "
            "it requires a client certificate (`ssl_certfile`)"
        )
    return None


def _reason(error: ssl.SSLError) -> str:
    """OpenSSL's name of the error; an SSLError that the `ssl` module did not make has none."""
    return getattr(error, "reason", None) or ""
