"""The principal of a TLS client certificate, as Kafka's default principal builder returns it: the
distinguished name in RFC 2253 form, the most specific part first."""

import re
from typing import Any, Final

__all__ = ["principal_of"]

_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_SPECIAL: Final = re.compile(r'([,=+<>#;"\\]|^ | $)')


def principal_of(certificate: dict[str, Any]) -> str:
    """Return the principal, such as `User:CN=alice,O=example`, of `SSLSocket.getpeercert()`."""
    parts = [
        "+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in relative_name)
        for relative_name in reversed(certificate.get("subject", ()))
    ]
    return f"User:{','.join(parts)}"


def _escaped(value: str) -> str:
    return _SPECIAL.sub(r"\\\1", value)
