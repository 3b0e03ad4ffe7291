"""One SASL exchange as a server has it, whatever the mechanism; and PLAIN (RFC 4616). No I/O."""

from abc import ABC, abstractmethod

from aiokafka_lite.testing.security.users import PLAIN, Users

__all__ = ["PlainExchange", "SaslExchange", "SaslRefused"]


class SaslRefused(Exception):
    """The client is not who it says, or says it wrongly; the exchange is over.

    Attributes:
        told: What the client is told; None for nothing but that its credentials are invalid, so
            that it does not learn whether the user exists.
    """

    def __init__(self, why: str, *, told: bool = False) -> None:
        super().__init__(why)
        self.told = why if told else None


class SaslExchange(ABC):
    """From the client's first message until it is known, or refused.

    Attributes:
        mechanism: By its registered name.
        user: Who the client is; None until that is proven.
        expires_ms: When its credentials do, in ms since the epoch; None for never.
    """

    mechanism: str
    user: str | None = None
    expires_ms: int | None = None

    @abstractmethod
    def on_message(self, message: bytes) -> bytes:
        """Take what the client sends; what it is answered, maybe nothing.

        Raises:
            SaslRefused: It is over.
        """


class PlainExchange(SaslExchange):
    """One message: authorization id, user and password, with NUL between."""

    mechanism = PLAIN

    def __init__(self, users: Users) -> None:
        self._users = users

    def on_message(self, message: bytes) -> bytes:
        parts = message.decode("utf-8", "replace").split("\0", 3)
        if len(parts) != 3:
            count = len(parts)
            raise SaslRefused(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {count}", told=True
            )
        authorization_id, user, password = parts
        if not user:
            raise _failed("username not specified")
        if not password:
            raise _failed("password not specified")
        if self._users.password_of(user) != password:
            raise _failed("Invalid username or password")
        if authorization_id not in ("", user):
            raise _failed("Client requested an authorization id that is different from username")
        self.user = user
        return b""


def _failed(why: str) -> SaslRefused:
    return SaslRefused(f"Authentication failed: {why}", told=True)
