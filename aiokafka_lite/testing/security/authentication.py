"""The SASL state of a connection: which requests it may send, and when it must re-authenticate.

    ApiVersions, once, if at all
    SaslHandshake v0: tokens follow without a Kafka header, each after its length
    SaslHandshake v1: tokens follow in SaslAuthenticate requests (KIP-152)

Then every request is served. If sessions have a lifetime (KIP-368), the client must re-authenticate
on the same connection before it expires, with the same mechanism and user; a later request closes
the connection. No I/O.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from aiokafka_lite.errors import (
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka_lite.protocol.registry import ApiKey, api_name
from aiokafka_lite.testing.clock import Clock
from aiokafka_lite.testing.security.sasl_exchange import PlainExchange, SaslExchange, SaslRefused
from aiokafka_lite.testing.security.users import PLAIN, SCRAM_MECHANISMS, Users

__all__ = ["Authentication", "NotAdmitted", "Sasl", "Verdict"]

LEAST_TIME_BETWEEN_MS: Final = 1000
"""Re-authentication sooner than this is rejected."""


class NotAdmitted(Exception):
    """A request that is not allowed now: the connection closes."""


class Verdict(NamedTuple):
    """The result of a client's message.

    Attributes:
        challenge: The response to the client.
        user: The authenticated user; None while the exchange continues.
        lifetime_ms: Session lifetime in ms; 0 for no limit.
    """

    challenge: bytes
    user: str | None = None
    lifetime_ms: int = 0


class Sasl:
    """The SASL configuration of a cluster's listeners.

    Args:
        users: The users that can authenticate.
        mechanisms: The offered mechanisms.
        session_lifetime: Seconds after which a client must re-authenticate
            (`connections.max.reauth.ms`); None for no limit.
        clock: The clock of session lifetimes.
        new_nonce: Returns the server's part of a SCRAM nonce.

    Raises:
        ValueError: A mechanism is unknown, or there is none.
    """

    def __init__(
        self,
        users: Users,
        mechanisms: Sequence[str],
        *,
        clock: Clock,
        new_nonce: Callable[[], str],
        session_lifetime: float | None = None,
    ) -> None:
        known = (PLAIN, *SCRAM_MECHANISMS.values(), "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")
        unknown = [mechanism for mechanism in mechanisms if mechanism not in known]
        if unknown or not mechanisms:
            raise ValueError(f"sasl_mechanisms={tuple(mechanisms)}: must be some of {known}")
        if session_lifetime is not None and session_lifetime <= 0:
            raise ValueError(
                f"sasl_session_lifetime={session_lifetime}: must be positive (seconds)"
            )
        self.mechanisms = list(mechanisms)
        self.clock = clock
        self._users = users
        self._session_lifetime = session_lifetime
        self._new_nonce = new_nonce

    def new_authentication(self) -> "Authentication":
        """Return the state of a newly accepted connection."""
        return Authentication(self)

    def begin(self, mechanism: str) -> SaslExchange:
        """Return a new exchange.

        Raises:
            UnsupportedSaslMechanismError: The mechanism is not offered.
        """
        if mechanism not in self.mechanisms:
            raise UnsupportedSaslMechanismError(f"Unsupported SASL mechanism {mechanism}")
        if mechanism == PLAIN:
            return PlainExchange(self._users)
        if mechanism == "OAUTHBEARER":
            from aiokafka_lite.testing.security.oauthbearer_server import OAuthBearerExchange

            return OAuthBearerExchange(self.clock)
        if mechanism == "GSSAPI":
            from aiokafka_lite.testing.security.gssapi_server import GssapiExchange

            return GssapiExchange(self._users)
        if mechanism == "AWS_MSK_IAM":
            from aiokafka_lite.testing.security.aws_msk_iam_server import AwsMskIamExchange

            return AwsMskIamExchange(self._users)
        from aiokafka_lite.testing.security.scram_server import (
            ScramExchange,  # import hashing only if needed
        )

        return ScramExchange(mechanism, self._users, self._new_nonce)

    def lifetime_ms(self, exchange: SaslExchange) -> int | None:
        """Return the lifetime of a new session in ms; None for no limit."""
        limits = []
        if self._session_lifetime is not None:
            limits.append(round(self._session_lifetime * 1000))
        if exchange.expires_ms is not None:
            limits.append(max(exchange.expires_ms - self.clock.now_ms(), 0))
        return min(limits, default=None)


class _Stage(Enum):
    FIRST = auto()  # ApiVersions or SaslHandshake
    HANDSHAKE = auto()
    TOKENS = auto()  # bare tokens
    REQUESTS = auto()  # SaslAuthenticate
    DONE = auto()
    OVER = auto()  # rejected


class Authentication:
    """The SASL state of one connection. Call `admit` before each request."""

    __slots__ = ("_again_ms", "_exchange", "_expires_ms", "_known", "_sasl", "_stage")

    def __init__(self, sasl: Sasl) -> None:
        self._sasl = sasl
        self._stage = _Stage.FIRST
        self._exchange: SaslExchange | None = None
        self._known: SaslExchange | None = None  # the exchange that authenticated the client
        self._expires_ms: int | None = None
        self._again_ms: int | None = None  # time of the last re-authentication

    @property
    def takes_tokens(self) -> bool:
        """True if the next frame is a bare token rather than a Kafka request."""
        return self._stage is _Stage.TOKENS

    @property
    def is_done(self) -> bool:
        """True if the client is authenticated and not re-authenticating."""
        return self._stage is _Stage.DONE

    @property
    def answers_last(self) -> bool:
        """False if the bare token that ended the exchange gets no response."""
        return self._known is None or self._known.answers_last

    @property
    def mechanisms(self) -> list[str]:
        """The offered mechanisms."""
        return self._sasl.mechanisms

    def admit(self, api_key: int) -> None:
        """Check that a request of an API is allowed now.

        Raises:
            NotAdmitted: It is not; the connection closes without a response.
            IllegalSaslStateError: It is not; the connection closes after an error response.
        """
        if self._stage is _Stage.DONE:
            self._admit_known(api_key)
            return
        if self._stage is _Stage.REQUESTS:
            if api_key != ApiKey.SASL_AUTHENTICATE:
                self._stage = _Stage.OVER
                raise IllegalSaslStateError(f"{api_name(api_key)} during SASL authentication")
            return
        if self._stage is _Stage.FIRST and api_key == ApiKey.API_VERSIONS:
            return
        if self._stage is _Stage.OVER or api_key != ApiKey.SASL_HANDSHAKE:
            raise NotAdmitted(f"{api_name(api_key)} before SASL authentication")

    def on_versions(self, error_code: int) -> None:
        """Handle the response of ApiVersions: SaslHandshake must follow unless it failed."""
        if self._stage is _Stage.FIRST and not error_code:
            self._stage = _Stage.HANDSHAKE

    def on_handshake(self, mechanism: str, version: int) -> None:
        """Handle the client's choice of a mechanism.

        Raises:
            UnsupportedSaslMechanismError: It is not offered; the connection closes.
            IllegalSaslStateError: The client is already authenticated; nothing changes.
            NotAdmitted: It is not offered, and the client is re-authenticating.
        """
        if self._stage not in (_Stage.FIRST, _Stage.HANDSHAKE):
            raise IllegalSaslStateError("SaslHandshake after authentication")
        try:
            self._exchange = self._sasl.begin(mechanism)
        except UnsupportedSaslMechanismError as error:
            self._stage = _Stage.OVER
            if self._known is not None:
                raise NotAdmitted(str(error)) from error  # Kafka closes without a response here
            raise
        if self._known is not None and self._known.mechanism != mechanism:
            self._stage = _Stage.OVER  # the connection closes without a response, as in Kafka
        else:
            self._stage = _Stage.TOKENS if version == 0 else _Stage.REQUESTS

    def on_message(self, message: bytes) -> Verdict:
        """Handle a client's token.

        Raises:
            SaslAuthenticationFailed: The token is rejected; the connection closes.
            IllegalSaslStateError: No token is expected now; nothing changes.
        """
        exchange = self._exchange
        if exchange is None or self._stage not in (_Stage.TOKENS, _Stage.REQUESTS):
            raise IllegalSaslStateError("unexpected SASL token")
        try:
            challenge = exchange.on_message(message)
            self._check_same_user(exchange)
        except SaslRefused as refusal:
            self._stage = _Stage.OVER
            what = "authentication" if self._known is None else "re-authentication"
            raise SaslAuthenticationFailed(
                refusal.shown
                or f"Authentication failed during {what} due to invalid credentials with SASL"
                f" mechanism {exchange.mechanism}"
            ) from refusal
        if exchange.user is None:
            return Verdict(challenge)
        lifetime_ms = self._sasl.lifetime_ms(exchange)
        self._known, self._exchange, self._stage = exchange, None, _Stage.DONE
        if lifetime_ms is not None:
            self._expires_ms = self._sasl.clock.now_ms() + lifetime_ms
        return Verdict(challenge, exchange.user, lifetime_ms or 0)

    def _admit_known(self, api_key: int) -> None:
        if self._expires_ms is None:
            return
        now_ms = self._sasl.clock.now_ms()
        rests = self._again_ms is None or now_ms - self._again_ms >= LEAST_TIME_BETWEEN_MS
        if api_key == ApiKey.SASL_HANDSHAKE and rests:
            self._again_ms = now_ms
            self._stage = _Stage.HANDSHAKE
        elif now_ms > self._expires_ms:
            raise NotAdmitted("the SASL session expired before the client re-authenticated")

    def _check_same_user(self, exchange: SaslExchange) -> None:
        known = self._known
        if known is not None and exchange.user not in (None, known.user):
            raise SaslRefused(
                "Cannot change principals during re-authentication from"
                f" User.{known.user}: User.{exchange.user}",
                shown=True,
            )
