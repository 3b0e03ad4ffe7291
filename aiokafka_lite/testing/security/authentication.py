"""How far one connection has come with SASL: what it may ask, and when it has to ask again. No I/O.

    ApiVersions, once, if at all
    SaslHandshake v0: tokens follow without a Kafka header, each after its length
    SaslHandshake v1: tokens follow in SaslAuthenticate requests (KIP-152)

and then everything is served. Where sessions have a lifetime (KIP-368), the client authenticates
again on the same connection before it ends, by the same mechanism and as the same user; a request
after it ends the connection.
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
"""A connection that authenticates again sooner than that is told that it may not."""


class NotAdmitted(Exception):
    """A request that a connection may not make now: the connection ends."""


class Verdict(NamedTuple):
    """What a client's message led to.

    Attributes:
        challenge: What it is answered.
        user: Who it is; None while the exchange goes on.
        lifetime_ms: How long that is believed; 0 for ever.
    """

    challenge: bytes
    user: str | None = None
    lifetime_ms: int = 0


class Sasl:
    """What a cluster's listeners ask of their clients.

    Args:
        users: Who may come in.
        mechanisms: Those offered.
        session_lifetime: Seconds after which a client has to authenticate again
            (`connections.max.reauth.ms`); None for never.
        clock: Sessions end by it.
        new_nonce: Gives the server's half of SCRAM nonces.

    Raises:
        ValueError: A mechanism that is not there, or none at all.
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
        known = (PLAIN, *SCRAM_MECHANISMS.values(), "OAUTHBEARER")
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
        """Of a connection that was just accepted."""
        return Authentication(self)

    def begin(self, mechanism: str) -> SaslExchange:
        """A new exchange.

        Raises:
            UnsupportedSaslMechanismError: Of a mechanism that is not offered.
        """
        if mechanism not in self.mechanisms:
            raise UnsupportedSaslMechanismError(f"Unsupported SASL mechanism {mechanism}")
        if mechanism == PLAIN:
            return PlainExchange(self._users)
        if mechanism == "OAUTHBEARER":
            from aiokafka_lite.testing.security.oauthbearer_server import OAuthBearerExchange

            return OAuthBearerExchange(self.clock)
        from aiokafka_lite.testing.security.scram_server import (
            ScramExchange,  # hashing is loaded by need
        )

        return ScramExchange(mechanism, self._users, self._new_nonce)

    def lifetime_ms(self, exchange: SaslExchange) -> int | None:
        """How long a client that has just authenticated is believed; None for ever."""
        limits = []
        if self._session_lifetime is not None:
            limits.append(round(self._session_lifetime * 1000))
        if exchange.expires_ms is not None:
            limits.append(max(exchange.expires_ms - self.clock.now_ms(), 0))
        return min(limits, default=None)


class _Stage(Enum):
    FIRST = auto()  # ApiVersions or SaslHandshake
    HANDSHAKE = auto()
    TOKENS = auto()  # bare ones
    REQUESTS = auto()  # SaslAuthenticate
    DONE = auto()
    OVER = auto()  # refused


class Authentication:
    """Of one connection. `admit` comes before each request, the rest as the client asks."""

    __slots__ = ("_again_ms", "_exchange", "_expires_ms", "_known", "_sasl", "_stage")

    def __init__(self, sasl: Sasl) -> None:
        self._sasl = sasl
        self._stage = _Stage.FIRST
        self._exchange: SaslExchange | None = None
        self._known: SaslExchange | None = None  # the exchange that told who it is
        self._expires_ms: int | None = None
        self._again_ms: int | None = None  # when it last began to authenticate again

    @property
    def takes_tokens(self) -> bool:
        """Whether what comes next is a bare token, and no Kafka request."""
        return self._stage is _Stage.TOKENS

    @property
    def is_done(self) -> bool:
        """Whether the client is known, and not about to authenticate again."""
        return self._stage is _Stage.DONE

    @property
    def mechanisms(self) -> list[str]:
        """Those offered."""
        return self._sasl.mechanisms

    def admit(self, api_key: int) -> None:
        """Whether a request of that API may come now.

        Raises:
            NotAdmitted: No; the connection ends without an answer.
            IllegalSaslStateError: No; an error is answered, and then the connection ends.
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
        """ApiVersions was answered: the next request has to be SaslHandshake, unless it failed."""
        if self._stage is _Stage.FIRST and not error_code:
            self._stage = _Stage.HANDSHAKE

    def on_handshake(self, mechanism: str, version: int) -> None:
        """The client chose a mechanism.

        Raises:
            UnsupportedSaslMechanismError: It is not offered; the connection ends.
            IllegalSaslStateError: This client is known already; nothing else happens.
            NotAdmitted: It is not offered, to a client that authenticates again.
        """
        if self._stage not in (_Stage.FIRST, _Stage.HANDSHAKE):
            raise IllegalSaslStateError("SaslHandshake after authentication")
        try:
            self._exchange = self._sasl.begin(mechanism)
        except UnsupportedSaslMechanismError as error:
            self._stage = _Stage.OVER
            if self._known is not None:
                raise NotAdmitted(str(error)) from error  # Kafka has no words for it here
            raise
        if self._known is not None and self._known.mechanism != mechanism:
            self._stage = _Stage.OVER  # it is told so by the end of the connection, as by Kafka
        else:
            self._stage = _Stage.TOKENS if version == 0 else _Stage.REQUESTS

    def on_message(self, message: bytes) -> Verdict:
        """A token of the client's.

        Raises:
            SaslAuthenticationFailed: It is refused; the connection ends.
            IllegalSaslStateError: No token belongs here; nothing else happens.
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
                refusal.told
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
                told=True,
            )
