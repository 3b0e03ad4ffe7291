"""Keeps a token, and renews it before it expires: the base class of all providers here.

Non-obvious:
- A timer renews the token, so that no connection waits for the token endpoint when it
  re-authenticates. The timer refers weakly to the source, which is never closed, and does nothing
  if the token was not used since the last renewal. Then the next call renews it.
- Concurrent calls in one event loop share a renewal. It is cancelled with its last caller, unless
  the timer began it, or a caller stopped waiting and used the old token. If slow renewals ended
  when their callers stop waiting, none would ever succeed.
- If a renewal fails while the token is still valid, the token stays in use, and the next attempt
  is made ten seconds later.
- A token that a broker rejects is renewed at its next use once it is ten seconds old. A newer one
  is not, so that brokers that reject every token do not cause a request for each attempt to
  connect. If the renewal fails, the token stays in use: a single broker may err.
"""

from __future__ import annotations

import abc
import asyncio
import base64
import binascii
import json
import logging
import math
import random
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.errors import KafkaConfigurationError, KafkaConnectionError
from aiokafka_lite.oauth.refresh_window import RETRY_SECONDS, refresh_at

__all__ = ["Token", "TokenSource", "check_path", "jwt_times"]

logger = logging.getLogger(__name__)

LONGEST_TIMER = 86_400.0 * 30
"""Seconds; a token that lives longer is renewed by a call."""

PATIENCE = 1.0
"""Seconds that a caller waits for a renewal while the old token is still valid: its connection
holds back all requests meanwhile."""

LONGEST_RENEWAL = 120.0
"""Seconds after which a `fetch` is abandoned. No caller ends a renewal in the background, and a
renewal that never ended would keep every later call from starting another."""


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token.

    Attributes:
        value: The token; not shown.
        expires_at: Seconds since the epoch; infinite if unknown.
        issued_at: Likewise; by default the time at which the token was received.
    """

    value: str = field(repr=False)
    expires_at: float = math.inf
    issued_at: float | None = None


@dataclass(slots=True)
class _Renewal:
    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[str]
    waiters: int = 0
    background: bool = False  # it continues without callers


class TokenSource(AbstractTokenProvider):
    """A provider that keeps its token. Subclasses implement `fetch`. Not in aiokafka.

    Args:
        extensions: Sent to the broker with each token (KIP-342), such as Confluent Cloud's
            `logicalCluster` and `identityPoolId`.
    """

    def __init__(self, *, extensions: Mapping[str, str] | None = None) -> None:
        self._extensions = dict(extensions or {})
        self._token: Token | None = None
        self._refresh_at = 0.0
        self._received_at = 0.0
        self._renewal: _Renewal | None = None
        self._used = False  # since the last renewal

    @abc.abstractmethod
    async def fetch(self) -> Token:
        """Return a new token.

        Raises:
            AuthenticationFailedError: The credentials are wrong: a retry cannot help.
            KafkaConnectionError: The attempt failed and may be repeated.
        """

    async def token(self) -> str:
        """Return a token that has not expired: the kept one, or a new one.

        Raises:
            AuthenticationFailedError, KafkaConnectionError: As `fetch`, if no kept token is valid.

        Cancellation: ends the fetch unless another caller waits for it.
        """
        now, kept = time.time(), self._token
        self._used = True
        if kept is None or now >= kept.expires_at:
            return await self._renewed()
        if now < self._refresh_at:
            return kept.value
        return await self._renewed_in_time(kept)

    def extensions(self) -> Mapping[str, str]:
        """Return the extensions given to the constructor."""
        return self._extensions

    def on_rejected(self, token: str) -> None:
        """Renew the kept token at its next use if a broker rejected it, unless it is new."""
        kept = self._token
        if kept is None or kept.value != token:
            return
        # A time before it was received is one after the clock was set back: then it may be old.
        if not 0 <= time.time() - self._received_at < RETRY_SECONDS:
            logger.warning("%r renews its token, which a broker rejected", self)
            self._refresh_at = 0.0  # if that fails, the other brokers may still accept this one

    async def _renewed(self) -> str:
        renewal = self._begin_renewal(asyncio.get_running_loop())
        renewal.waiters += 1
        try:
            value = await asyncio.shield(renewal.task)
            self._used = True
            return value
        finally:
            self._leave(renewal)

    async def _renewed_in_time(self, kept: Token) -> str:
        """Return a new token, or the kept one, which is still valid, if that fails or is slow."""
        loop = asyncio.get_running_loop()
        renewal = self._begin_renewal(loop)
        renewal.waiters += 1
        try:
            await asyncio.wait([renewal.task], timeout=PATIENCE)
            if not renewal.task.done():
                self._continue_in_background(renewal, kept)
                return kept.value
        finally:
            self._leave(renewal)
        try:
            value = renewal.task.result()
        except (Exception, asyncio.CancelledError) as error:  # cancelled from inside
            self._on_failed_renewal(kept, error)
            return kept.value
        self._used = True
        return value

    def _leave(self, renewal: _Renewal) -> None:
        """A caller has stopped waiting."""
        renewal.waiters -= 1
        if not renewal.waiters and not renewal.background and not renewal.task.done():
            renewal.task.cancel()
            if self._renewal is renewal:
                self._renewal = None  # the next caller starts a new one

    def _begin_renewal(self, loop: asyncio.AbstractEventLoop) -> _Renewal:
        renewal = self._renewal
        if renewal is None or renewal.loop is not loop or renewal.task.done():
            renewal = _Renewal(loop, loop.create_task(self._renew(), name="aiokafka_lite: token"))
            self._renewal = renewal
        return renewal

    async def _renew(self) -> str:
        try:
            async with asyncio.timeout(LONGEST_RENEWAL) as limit:
                token = await self.fetch()
        except TimeoutError:
            if not limit.expired():
                raise
            raise KafkaConnectionError(
                f"{self!r} got no token within {LONGEST_RENEWAL:g} s"
            ) from None
        now = time.time()
        issued = now if token.issued_at is None else min(token.issued_at, now)
        self._token = token
        self._received_at = now
        self._used = False
        self._refresh_at = refresh_at(issued, token.expires_at, now, random.random())
        self._set_timer(asyncio.get_running_loop(), self._refresh_at - now)
        return token.value

    def _set_timer(self, loop: asyncio.AbstractEventLoop, delay: float) -> None:
        kept = self._token
        if kept is not None and 0 < delay < LONGEST_TIMER:
            loop.call_later(delay, _on_timer, weakref.ref(self), kept, loop)

    def _renew_in_background(self, loop: asyncio.AbstractEventLoop, kept: Token) -> None:
        self._continue_in_background(self._begin_renewal(loop), kept)

    def _continue_in_background(self, renewal: _Renewal, kept: Token) -> None:
        """Let no caller's cancellation end a renewal."""
        if renewal.background:
            return
        renewal.background = True
        loop = renewal.loop

        def on_done(task: asyncio.Task[str]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self._on_failed_renewal(kept, error)
                if time.time() < kept.expires_at:
                    self._set_timer(loop, RETRY_SECONDS)

        renewal.task.add_done_callback(on_done)

    def _on_failed_renewal(self, kept: Token, error: BaseException) -> None:
        now = time.time()
        if self._token is kept and self._refresh_at <= now:
            self._refresh_at = now + RETRY_SECONDS
            logger.warning(
                "%r keeps its token, which is valid for another %.0f s, because the renewal "
                "failed: %s",
                self,
                kept.expires_at - now,
                error,
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def _on_timer(
    reference: weakref.ref[TokenSource], kept: Token, loop: asyncio.AbstractEventLoop
) -> None:
    source = reference()
    if source is not None and source._token is kept and source._used:
        source._renew_in_background(loop, kept)


def check_path(name: str, path: object) -> None:
    """Refuse a JWT that was given in place of the path of a file: errors show the path.

    Args:
        name: The argument.

    Raises:
        KafkaConfigurationError: It is a JWT.
    """
    if isinstance(path, str) and path.startswith("eyJ") and path.count(".") >= 2:
        raise KafkaConfigurationError(
            f"`{name}` should be the path of a file that holds the JWT, not the JWT itself"
        )


def jwt_times(token: str) -> tuple[float | None, float | None]:
    """Return when a JWT was issued and expires (`iat`, `exp`), without verifying it.

    Returns:
        Seconds since the epoch; None for a claim that is missing, and for a token that is not a
        JWT.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None, None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return None, None
    if not isinstance(claims, dict):
        return None, None
    return _seconds(claims.get("iat")), _seconds(claims.get("exp"))


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e11 else None
