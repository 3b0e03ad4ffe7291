"""AWS Signature Version 4 in a query string. Pure functions.

Source: "Authenticating Requests: Using Query Parameters" in AWS's reference of SigV4. The tests
compare with the examples published there.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from aiokafka_lite.net.aws.aws_credentials import AwsCredentials

__all__ = ["EMPTY_PAYLOAD", "presigned_parameters", "presigned_query", "signing_key"]

ALGORITHM: Final = "AWS4-HMAC-SHA256"
EMPTY_PAYLOAD: Final = hashlib.sha256(b"").hexdigest()


def signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    """Return the key that signs one day's requests to one service.

    Args:
        date: As YYYYMMDD.
    """
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = _hmac(key, part)
    return key


def presigned_parameters(
    credentials: AwsCredentials,
    *,
    host: str,
    path: str,
    region: str,
    service: str,
    now: float,
    expires: int,
    parameters: Mapping[str, str] | None = None,
    payload_hash: str = EMPTY_PAYLOAD,
) -> dict[str, str]:
    """Return the parameters of a signed GET request in AWS's order, with the signature at the end.

    Args:
        now: Seconds since the epoch.
        expires: Seconds that the signature is valid.
        parameters: The request's own parameters.
        payload_hash: SHA-256 of the body, in hexadecimal, or "UNSIGNED-PAYLOAD".
    """
    at = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    date = at[:8]
    scope = f"{date}/{region}/{service}/aws4_request"
    signed = {
        **(parameters or {}),
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key_id}/{scope}",
        "X-Amz-Date": at,
        "X-Amz-Expires": str(expires),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session_token:
        signed["X-Amz-Security-Token"] = credentials.session_token
    query = _query(signed)
    canonical = "\n".join(
        ("GET", quote(path, safe="/-_.~"), query, f"host:{host}\n", "host", payload_hash)
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = signing_key(credentials.secret_access_key, date, region, service)
    signature = _hmac(key, f"{ALGORITHM}\n{at}\n{scope}\n{digest}").hex()
    return {**dict(sorted(signed.items())), "X-Amz-Signature": signature}


def presigned_query(
    credentials: AwsCredentials,
    *,
    host: str,
    path: str,
    region: str,
    service: str,
    now: float,
    expires: int,
    parameters: Mapping[str, str] | None = None,
    payload_hash: str = EMPTY_PAYLOAD,
) -> str:
    """Return the query string of a signed GET request; see `presigned_parameters`."""
    signed = presigned_parameters(
        credentials,
        host=host,
        path=path,
        region=region,
        service=service,
        now=now,
        expires=expires,
        parameters=parameters,
        payload_hash=payload_hash,
    )
    signature = signed.pop("X-Amz-Signature")
    return f"{_query(signed)}&X-Amz-Signature={signature}"


def _query(parameters: Mapping[str, str]) -> str:
    pairs = sorted((_quote(name), _quote(value)) for name, value in parameters.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


def _quote(text: str) -> str:
    return quote(text, safe="-_.~")


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
