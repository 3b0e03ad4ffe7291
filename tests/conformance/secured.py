"""Clusters with authentication, and scenarios whose connections have users.

The name of a connection is its user: `on="alice"` authenticates as alice by PLAIN before anything
else, so does `on="alice@0"`, and `on="topics"` (which creates topics) authenticates as admin, a
super user. `on="-anything"` stays unauthenticated.
"""

from typing import Any, Final

from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokafka_lite.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.conformance.target import Target
from tools.kafka import KafkaCluster, Security

__all__ = ["SUPER_USERS", "USERS", "SecuredTarget", "guarded_kafka", "plain"]

USERS: Final = {
    name: f"{name}-secret" for name in ("admin", "alice", "bob", "carol", "dave", "eve")
}
SUPER_USERS: Final = ("User:admin",)


def guarded_kafka(**config: object) -> KafkaCluster:
    """A real Kafka with SASL and `StandardAuthorizer`; its own listeners are anonymous."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    return KafkaCluster(
        security=Security(listeners=("SASL_PLAINTEXT",), users=USERS),
        config={
            "authorizer.class.name": authorizer,
            "super.users": ";".join(("User:ANONYMOUS", *SUPER_USERS)),
            **config,
        },
    )


def plain(user: str, password: str | None = None, authorization_id: str = "") -> bytes:
    """The message of PLAIN, by default with the right password."""
    secret = USERS.get(user, "") if password is None else password
    return f"{authorization_id}\0{user}\0{secret}".encode()


class SecuredTarget(Target):
    """A target whose connections authenticate themselves."""

    def __init__(self, kind: str, bootstrap: str, suffix: str) -> None:
        super().__init__(kind, bootstrap, suffix)
        self._known: set[str] = set()

    async def quietly(self, request: Request, version: int, on: str = "admin") -> Any:
        if on not in self._known and not on.startswith("-"):
            self._known.add(on)
            user = on.partition("@")[0]
            user = "admin" if user in ("main", "topics") else user
            await super().quietly(SaslHandshakeRequest("PLAIN"), 1, on)
            answer = await super().quietly(SaslAuthenticateRequest(plain(user)), 2, on)
            assert not answer.error_code, answer
        return await super().quietly(request, version, on)

    def disconnect(self, on: str) -> None:
        self._known.discard(on)
        super().disconnect(on)
