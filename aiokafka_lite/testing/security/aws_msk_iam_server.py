"""The server side of AWS_MSK_IAM: verifies the signature of the client's message.

A user is an access key, whose password is the secret key. The check of the signature follows AWS's
reference of Signature Version 4 and shares nothing with the client's signer.
"""

import hashlib
import hmac
import json
import re
import time
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from aiokafka_lite.testing.security.sasl_exchange import SaslExchange, SaslRefused
from aiokafka_lite.testing.security.users import Users

__all__ = ["AWS_MSK_IAM", "AwsMskIamExchange"]

AWS_MSK_IAM: Final = "AWS_MSK_IAM"

_SIGNED: Final = (
    "Action",
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-Security-Token",
    "X-Amz-SignedHeaders",
)
_NEEDED: Final = {"version", "host", "user-agent", "x-amz-signature", *map(str.lower, _SIGNED)} - {
    "x-amz-security-token"
}
_CREDENTIAL: Final = re.compile(
    r"(?P<key>[^/]+)/(?P<scope>(?P<date>\d{8})/(?P<region>[^/]+)/kafka-cluster/aws4_request)"
)


class AwsMskIamExchange(SaslExchange):
    """A single message, which is answered with a request id.

    Args:
        users: Secret keys by access key.
    """

    mechanism = AWS_MSK_IAM

    def __init__(self, users: Users) -> None:
        self._users = users

    def on_message(self, message: bytes) -> bytes:
        try:
            given = json.loads(message)
        except (ValueError, RecursionError) as error:
            raise SaslRefused("the message is not JSON") from error
        if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
            raise SaslRefused("the message is not an object of strings")
        missing = _NEEDED - given.keys()
        if missing or given["version"] != "2020_10_22":
            raise SaslRefused(f"the message lacks {', '.join(sorted(missing)) or 'its version'}")
        self._verify(given)
        return json.dumps({"version": "2020_10_22", "request-id": "embedded"}).encode()

    def _verify(self, given: dict[str, str]) -> None:
        credential = _CREDENTIAL.fullmatch(given["x-amz-credential"])
        if (
            credential is None
            or given["action"] != "kafka-cluster:Connect"
            or given["x-amz-algorithm"] != "AWS4-HMAC-SHA256"
            or given["x-amz-signedheaders"] != "host"
            or not given["x-amz-date"].startswith(credential["date"])
        ):
            raise SaslRefused("the message is not a signed request to connect")
        secret = self._users.password_of(credential["key"])
        if secret is None:
            raise SaslRefused("unknown access key")
        try:
            at = datetime.strptime(given["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            lifetime = int(given["x-amz-expires"])
        except ValueError as error:
            raise SaslRefused("the date or the lifetime is not valid") from error
        if not 0 < lifetime <= 900 or time.time() > at.timestamp() + lifetime:
            raise SaslRefused("the signature has expired")
        query = "&".join(
            f"{quote(name, safe='-_.~')}={quote(given[name.lower()], safe='-_.~')}"
            for name in _SIGNED
            if name.lower() in given
        )
        empty = hashlib.sha256().hexdigest()
        request = f"GET\n/\n{query}\nhost:{given['host']}\n\nhost\n{empty}"
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{given['x-amz-date']}\n{credential['scope']}\n{digest}"
        key = f"AWS4{secret}".encode()
        for part in credential["scope"].split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        if not hmac.compare_digest(signature, given["x-amz-signature"]):
            raise SaslRefused("the signature does not match", shown=True)
        self.user = credential["key"]
