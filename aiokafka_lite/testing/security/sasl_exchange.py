"""The server side of a SASL exchange, and of PLAIN (RFC 4616). No I/O."""

from abc import ABC, abstractmethod

from aiokafka_lite.testing.security.users import PLAIN, Users

__all__ = ["PlainExchange", "SaslExchange", "SaslRefused"]


class SaslRefused(Exception):
    """Authentication failed, or a message is invalid; the exchange is over.

    Attributes:
        shown: The message for the client; None only says that the credentials are invalid, which
            does not reveal whether the user exists.
    """

    def __init__(self, why: str, *, shown: bool = False) -> None:
        super().__init__(why)
        self.shown = why if shown else None


class SaslExchange(ABC):
    """An exchange, from the client's first message to its authentication or rejection.

    Attributes:
        mechanism: The registered name of the mechanism.
        user: The authenticated user; None before that.
        expires_ms: Expiry of the credentials, in ms since the epoch; None for no expiry.
        answers_last: False if a client's last bare token gets no response.
    """

    mechanism: str
    user: str | None = None
    expires_ms: int | None = None
    answers_last: bool = True

    @abstractmethod
    def on_message(self, message: bytes) -> bytes:
        """Handle a client's message; return the response, which may be empty.

        Raises:
            SaslRefused: The client is rejected.
        """


class PlainExchange(SaslExchange):
    """A single message: authorization id, user and password, separated by NUL."""

    mechanism = PLAIN

    def __init__(self, users: Users) -> None:
        self._users = users

    def on_message(self, message: bytes) -> bytes:
        parts = message.decode("utf-8", "replace").split("\0", 3)
        if len(parts) != 3:
            count = len(parts)
            raise SaslRefused(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {count}", shown=True
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
    return SaslRefused(f"Authentication failed: {why}", shown=True)
