"""Re-authentication of a connection before its SASL session expires (KIP-368).

A broker with `connections.max.reauth.ms`, or one that received a token that expires, closes a
connection with an expired session as soon as it is used. So the first request after 85 to 95 % of
the session lifetime is held, with all later ones, while the connection authenticates again.
The broker answers earlier requests first, and no other request may be sent in between.

Non-obvious:
- An idle connection re-authenticates only when it is used again.
- The jitter keeps the connections of many clients from re-authenticating together.
- No request is held forever: fetching the credentials and each request have a deadline, and a
  re-authentication that does not succeed closes the connection.
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
    """The part of a connection that its re-authentication uses."""

    @property
    def host(self) -> str: ...
    @property
    def versions(self) -> BrokerVersions: ...
    def send(
        self, request: RequestOf[ResponseT], version: int, *, past_held: bool
    ) -> Awaitable[ResponseT]: ...
    async def exchange_raw(self, token: bytes) -> bytes: ...
    def send_raw(self, token: bytes) -> None: ...


class Renewal:
    """The SASL session of one connection. Owns the task that renews it; `cancel` ends the task.

    Args:
        connection: The connection.
        mechanism: The mechanism that the connection was opened with.
        lifetime: Initial session lifetime in seconds; None: the session does not expire.
        on_failure: Called with the reason if renewal fails: the connection is unusable.
        timeout: Seconds that the mechanism may take to fetch its credentials.
    """

    def __init__(
        self,
        connection: Renewed,
        mechanism: Mechanism,
        lifetime: float | None,
        on_failure: Callable[[KafkaError], None],
        timeout: float,
    ) -> None:
        self._channel: Channel = _PastHeld(connection)
        self._mechanism = mechanism
        self._on_failure = on_failure
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._held: deque[Callable[[], None]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._over = False  # the connection is closed
        self._due = self._next(lifetime)

    def holds(self) -> bool:
        """True if requests must wait for a renewal; starts a renewal that is due."""
        if self._task is None:
            if self._due is None or self._loop.time() < self._due:
                return False
            self._task = self._loop.create_task(self._renew(), name="aiokafka_lite: renew session")
            self._task.add_done_callback(self._on_done)
        return True

    def hold(self, send: Callable[[], None]) -> None:
        """Call `send` once the session is renewed; calls keep their order."""
        self._held.append(send)

    @property
    def held(self) -> int:
        """Number of held requests."""
        return len(self._held)

    def cancel(self) -> None:
        """End the renewal of a closing connection; the held calls run and fail their requests."""
        self._over = True
        if self._task is not None:
            self._task.cancel()
        self._release()

    async def _renew(self) -> None:
        try:
            lifetime = await authenticate(self._channel, self._mechanism, self._timeout)
        except KafkaError as error:
            self._on_failure(error)
        except Exception as error:  # a token provider may raise anything
            failed = AuthenticationFailedError(f"{self._mechanism!r} failed: {error!r}")
            failed.__cause__ = error
            self._on_failure(failed)
        else:
            self._due = self._next(lifetime)
            self._task = None
            self._release()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        """Close the connection if the task failed, which fails the held requests."""
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
    """A channel that bypasses the requests held for the renewal."""

    def __init__(self, connection: Renewed) -> None:
        self._connection = connection
        self.host = connection.host
        self.versions = connection.versions

    async def request(self, request: RequestOf[ResponseT], version: int) -> ResponseT:
        return await self._connection.send(request, version, past_held=True)

    async def exchange_raw(self, token: bytes) -> bytes:
        return await self._connection.exchange_raw(token)

    def send_raw(self, token: bytes) -> None:
        self._connection.send_raw(token)
