"""Saying again who this client is, before the broker's patience with the old word ends (KIP-368).

A broker with `connections.max.reauth.ms`, or one that was shown a token that expires, cuts a
connection whose time is over as soon as it is used. So the first request after 85 to 95 % of that
time is held back, and so are those behind it, while the connection authenticates once more: what
was sent before is answered before, and nothing may come in between.

Non-obvious:
- An idle connection is left alone: it is renewed when it is used again.
- The jitter keeps the connections of many clients from coming back together.
- Nothing is held without an end: fetching the credentials and each request have a deadline, and a
  renewal that ends in any other way than by success closes the connection.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from aiokafka_lite.errors import AuthenticationFailedError, KafkaError
from aiokafka_lite.net.authenticate import Channel, Mechanism, authenticate
from aiokafka_lite.protocol.message import RequestOf, ResponseT
from aiokafka_lite.protocol.versions import BrokerVersions

EARLIEST: Final = 0.85  # of the session's lifetime, as the Java client does
LATEST: Final = 0.95


class Renewed(Protocol):
    """What a connection offers to its renewal."""

    @property
    def host(self) -> str: ...
    @property
    def versions(self) -> BrokerVersions: ...
    def send(
        self, request: RequestOf[ResponseT], version: int, *, past_held: bool
    ) -> Awaitable[ResponseT]: ...
    async def exchange_raw(self, token: bytes) -> bytes: ...


class Renewal:
    """The session of one connection. Owns the task that renews it; `cancel` ends that.

    Args:
        connection: Whose session it is.
        mechanism: The one that the connection was opened with.
        lifetime: Seconds that the broker gave at first; None for ever.
        on_failure: Called with the reason if it was not renewed: the connection is of no more use.
        patience: Seconds that the mechanism may take to fetch its credentials.
    """

    def __init__(
        self,
        connection: Renewed,
        mechanism: Mechanism,
        lifetime: float | None,
        on_failure: Callable[[KafkaError], None],
        patience: float,
    ) -> None:
        self._channel: Channel = _PastHeld(connection)
        self._mechanism = mechanism
        self._on_failure = on_failure
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._held: deque[Callable[[], None]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._over = False  # the connection is closed
        self._due = self._next(lifetime)

    def holds(self) -> bool:
        """Whether a request has to wait: it is being renewed, or must be, which begins now."""
        if self._task is None:
            if self._due is None or self._loop.time() < self._due:
                return False
            self._task = self._loop.create_task(self._renew(), name="aiokafka_lite: renew session")
            self._task.add_done_callback(self._on_done)
        return True

    def hold(self, send: Callable[[], None]) -> None:
        """Call `send` once the session is renewed, in the order in which they came."""
        self._held.append(send)

    @property
    def held(self) -> int:
        """Requests that wait."""
        return len(self._held)

    def cancel(self) -> None:
        """The connection closes: nothing that is held will be sent, and each is called to see."""
        self._over = True
        if self._task is not None:
            self._task.cancel()
        self._release()

    async def _renew(self) -> None:
        try:
            lifetime = await authenticate(self._channel, self._mechanism, self._patience)
        except KafkaError as error:
            self._on_failure(error)
        except Exception as error:  # a token provider may raise what it likes
            failed = AuthenticationFailedError(f"{self._mechanism!r} failed: {error!r}")
            failed.__cause__ = error
            self._on_failure(failed)
        else:
            self._due = self._next(lifetime)
            self._task = None
            self._release()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        """Give what is held an outcome, however the task ended: closing the connection fails it."""
        if self._task is task and not self._over:
            error = None if task.cancelled() else task.exception()
            failed = AuthenticationFailedError(
                f"{self._mechanism!r} was cancelled"
                if error is None
                else f"{self._mechanism!r} failed: {error!r}"
            )
            failed.__cause__ = error
            self._on_failure(failed)

    def _release(self) -> None:
        while self._held:
            self._held.popleft()()

    def _next(self, lifetime: float | None) -> float | None:
        if lifetime is None:
            return None
        return self._loop.time() + lifetime * random.uniform(EARLIEST, LATEST)


class _PastHeld:
    """The way to the broker past what waits for the renewal."""

    def __init__(self, connection: Renewed) -> None:
        self._connection = connection
        self.host = connection.host
        self.versions = connection.versions

    async def request(self, request: RequestOf[ResponseT], version: int) -> ResponseT:
        return await self._connection.send(request, version, past_held=True)

    async def exchange_raw(self, token: bytes) -> bytes:
        return await self._connection.exchange_raw(token)
