"""One broker: its connections, one for each purpose, and the reconnect backoff.

Produce, fetch, group, commit and general requests use separate connections, because a broker
answers the requests of a connection strictly in order. A fetch that waits for records must not
delay a heartbeat or an acknowledgement, and a join that waits for other members must not delay a
commit.

Non-obvious:
- At most one connection attempt is in progress for a purpose; all callers that need the connection
  await the same outcome. Cancelling one caller stops only its own wait.
- The backoff belongs to the broker, not to the purpose: one refused connection delays all of them,
  and attempts that fail concurrently count as one failure. A lost connection is replaced at once if
  it lived longer than the shortest backoff.
- A `Broker` lives as long as its cluster and represents a node id. When its address changes, its
  connections to the old address are closed.
- An attempt's outcome is a bare future that is never cancelled. It is resolved however the
  attempt's task ends, even if the task is cancelled before its first step or fails with a
  BaseException.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable
from typing import Generic, NamedTuple

from aiokafka_lite._backoff import Backoff
from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.metadata import Node
from aiokafka_lite.cluster.outage import Outage, reason
from aiokafka_lite.errors import (
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
)
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.handshake import BrokerIdentity
from aiokafka_lite.net.open_connection import open_connection
from aiokafka_lite.net.traffic import Traffic
from aiokafka_lite.protocol.message import Request, RequestOf, ResponseT, ResponseT_co

log = logging.getLogger(__name__)


class Purpose(enum.Enum):
    """The purpose of a connection; each purpose has its own."""

    __hash__ = object.__hash__  # Enum's own is a Python call, and each request hashes a purpose

    GENERAL = "general"  # metadata, lookups, administration: quick responses
    PRODUCE = "produce"
    FETCH = "fetch"  # long polls
    GROUP = "group"  # heartbeats and joins, which a broker may hold for a whole rebalance
    SHARE = "share"  # a share session, which ends with its connection
    TELEMETRY = "telemetry"  # a broker's plugin for metrics may hang
    COMMIT = "commit"  # must not queue behind a join: OffsetCommit, OffsetFetch, LeaveGroup

    @property
    def may_wait(self) -> bool:
        """True if a late response does not mean that the broker is unresponsive."""
        return self in (Purpose.GROUP, Purpose.TELEMETRY)


class PerVersion(NamedTuple, Generic[ResponseT_co]):
    """A request whose content depends on the API version, built once the version is known.

    Attributes:
        request_class: The class of the request.
        build: Builds the request for a version.
    """

    request_class: type[Request]
    build: Callable[[int], RequestOf[ResponseT_co]]


class _Attempt(NamedTuple):
    """A connection attempt: its task, and the future that all waiting callers share."""

    task: asyncio.Task[None]
    outcome: asyncio.Future[Connection]


class Broker:
    """A broker of the cluster, or (with a negative id) a bootstrap address.

    Attributes:
        traffic: Counts its connections, requests and bytes.

    Args:
        node: Its id and address.
        options: Options of its connections.
        backoff: Delays between connection attempts.
        tasks: Owner of the attempts' tasks.
        on_lost: Called with this broker and the error when a connection is lost, not closed.
        on_refused: Called with this broker and the error when an attempt failed.
        cluster_id: Returns the id of the cluster that the broker belongs to, for brokers that check
            it; None if it is unknown or must not be checked.
    """

    def __init__(
        self,
        node: Node,
        options: ConnectionOptions,
        backoff: Backoff,
        tasks: TaskOwner,
        on_lost: Callable[[Broker, BaseException], None],
        on_refused: Callable[[Broker, KafkaError], None] = lambda broker, error: None,
        cluster_id: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.node = node
        self.traffic = Traffic()
        self.next_attempt_at = 0.0  # loop time before which no connection is attempted
        self.closed = False
        self._options = options
        self._backoff = backoff
        self._tasks = tasks
        self._on_lost = on_lost
        self._on_refused = on_refused
        self._cluster_id = cluster_id
        self._failures = 0  # in a row
        self._failed_at = 0.0  # loop time of the last one
        self._outage = self._new_outage()
        self._connections: dict[Purpose, Connection] = {}
        self._attempts: dict[Purpose, _Attempt] = {}

    @property
    def node_id(self) -> int:
        return self.node.node_id

    @property
    def in_flight(self) -> int:
        """Unanswered requests on all connections, including held ones; each connection attempt
        counts as one."""
        waiting = sum(each.in_flight + each.held for each in self._connections.values())
        return waiting + len(self._attempts)

    def silent_for(self, now: float) -> float | None:
        """Seconds for which a response has been overdue, at most over all connections, beyond the
        time that the broker may hold a request; None if none is pending. `now` is loop time."""
        longest: float | None = None
        for purpose, connection in self._connections.items():
            if not purpose.may_wait and (silent_for := connection.silent_for(now)) is not None:
                longest = silent_for if longest is None else max(longest, silent_for)
        return longest

    @property
    def connections(self) -> dict[Purpose, Connection]:
        """The open connections."""
        return {purpose: each for purpose, each in self._connections.items() if not each.closed}

    @property
    def throttles(self) -> bool:
        """True if the broker throttles this client on any connection (KIP-219)."""
        return any(not each.listens for each in self._connections.values())

    def connected(self, purpose: Purpose = Purpose.GENERAL) -> Connection | None:
        """The open connection for a purpose, or None."""
        connection = self._connections.get(purpose)
        return None if connection is None or connection.closed else connection

    def blacked_out(self, now: float) -> bool:
        """True while the reconnect backoff forbids a new connection attempt."""
        return now < self.next_attempt_at

    async def connection(self, purpose: Purpose = Purpose.GENERAL) -> Connection:
        """The open connection for a purpose; connects if needed, after the remaining backoff.

        Raises:
            KafkaConnectionError: The attempt failed. The next call makes the next attempt.
            KafkaError: The handshake failed, such as an authentication or version error.
            IllegalStateError: The broker's cluster is closed.

        Cancellation: stops this wait; the attempt continues for other callers.
        """
        connection = self.connected(purpose)
        if connection is not None:
            return connection
        if self.closed:
            raise closed_error()
        attempt = self._attempts.get(purpose)
        if attempt is None:
            attempt = self._attempt(purpose)
        return await asyncio.shield(attempt.outcome)

    async def request(
        self,
        request: RequestOf[ResponseT] | PerVersion[ResponseT],
        purpose: Purpose = Purpose.GENERAL,
        *,
        latest: int | None = None,
        oldest: int = 0,
        timeout: float | None = None,
    ) -> ResponseT:
        """Send one request, connecting first if needed, and wait for its response.

        Args:
            request: The request, or how to build it for a version.
            latest: Newest version to use; None: the newest that both sides support.
            oldest: Oldest version that can express the request.
            timeout: Seconds until a missing response fails the connection; None: the connection's
                own timeout.

        Raises:
            KafkaConnectionError: The connection failed, or was lost before the response.
            UnsupportedVersionError: The broker supports no suitable version.
            IllegalStateError: The cluster is closed.

        Cancellation: stops the wait; the request may have been sent.
        """
        connection = await self.connection(purpose)
        if isinstance(request, PerVersion):
            while not connection.listens:
                # To its builder, a request counts as sent, but the connection would hold it.
                await connection.until_listening()
                connection = await self.connection(purpose)
            version = connection.version_of(request.request_class, latest, oldest)
            request = request.build(version)
        else:
            version = connection.version_of(request, latest, oldest)
        return await connection.request(request, version, timeout=timeout)

    def move(self, node: Node) -> None:
        """Update the address and rack that the cluster reports for this node id."""
        if (node.host, node.port) != (self.node.host, self.node.port):
            self._drop(
                KafkaConnectionError(
                    f"Broker {self.node_id} moved from {self.node.host}:{self.node.port} "
                    f"to {node.host}:{node.port}"
                )
            )
            self._failures = 0
            self.next_attempt_at = 0.0
            self.node = node
            self._outage = self._new_outage()
        self.node = node

    def take_over(self, seed: Broker) -> None:
        """Take over the connection of a bootstrap address that is this broker's address."""
        connection = seed.connected()
        if connection is not None and Purpose.GENERAL not in {*self._connections, *self._attempts}:
            del seed._connections[Purpose.GENERAL]
            self.traffic.absorb(seed.traffic)
            seed.traffic = Traffic()
            self._keep(Purpose.GENERAL, connection, asyncio.get_running_loop().time())

    def disconnect(self, error: KafkaError | None = None) -> None:
        """Close every connection; the next request reconnects.

        Args:
            error: What waiting callers get; None: that the broker was disconnected.
        """
        self._drop(error or KafkaConnectionError(f"{self} was disconnected"))

    def close(self, error: KafkaError | None = None) -> None:
        """Close permanently and at once; requests in flight and attempts fail. Idempotent.

        Args:
            error: What waiting callers get; None: that the cluster is closed.
        """
        self.closed = True
        self._drop(error or closed_error())

    def _attempt(self, purpose: Purpose) -> _Attempt:
        outcome: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        # Retrieve the exception: all callers may have stopped waiting.
        outcome.add_done_callback(lambda done: done.exception())
        name = f"connect to {self} for {purpose.value}"
        attempt = _Attempt(self._tasks.spawn(self._connect(purpose, outcome), name), outcome)
        self._attempts[purpose] = attempt
        attempt.task.add_done_callback(lambda task: self._on_attempt_done(purpose, attempt, task))
        return attempt

    def _on_attempt_done(
        self, purpose: Purpose, attempt: _Attempt, task: asyncio.Task[None]
    ) -> None:
        """Fail an attempt that ended without an outcome, so that its callers do not hang."""
        if attempt.outcome.done():
            return
        ended = "was cancelled" if task.cancelled() else f"failed: {task.exception()!r}"
        error = KafkaConnectionError(f"{self}: the connection attempt {ended}")
        self._failed(purpose, attempt.outcome, error, asyncio.get_running_loop().time())

    async def _connect(self, purpose: Purpose, outcome: asyncio.Future[Connection]) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self.next_attempt_at - loop.time()))
        started = loop.time()
        cluster_id = self._cluster_id() if self.node_id >= 0 else None
        expected = None if cluster_id is None else BrokerIdentity(cluster_id, self.node_id)
        try:
            connection = await open_connection(
                self.node.host,
                self.node.port,
                self._options,
                expected=expected,
                timeout=self._options.setup_timeout(self._failures),
            )
        except KafkaProtocolError as error:
            self._failed(purpose, outcome, self._not_a_broker(error), started)
            return
        except KafkaError as error:
            self._failed(purpose, outcome, error, started)
            return
        except Exception as error:
            self._failed(purpose, outcome, KafkaConnectionError(f"{self}: {error!r}"), started)
            raise  # a bug: the owner of the tasks reports it
        self._failures = 0
        self.next_attempt_at = 0.0
        self.traffic.on_connected(connection.traffic, loop.time())
        self._keep(purpose, connection, started)
        del self._attempts[purpose]
        outcome.set_result(connection)

    def _not_a_broker(self, error: KafkaProtocolError) -> KafkaError:
        """Return the error of an attempt that reached a server of another kind.

        At a bootstrap address, this means a wrong configuration. But a broker used this address
        before: another server has taken it over, and the cluster will report the broker's new
        address, or that the broker was removed. No request was sent, so callers may try again.
        """
        return KafkaConnectionError(*error.args) if self.node_id >= 0 else error

    def _keep(self, purpose: Purpose, connection: Connection, opened_at: float) -> None:
        self._report(self._outage.on_success(asyncio.get_running_loop().time()))
        connection.traffic = self.traffic
        self._connections[purpose] = connection
        connection.on_close = lambda error: self._on_close(purpose, connection, opened_at, error)

    def _failed(
        self,
        purpose: Purpose,
        outcome: asyncio.Future[Connection],
        error: KafkaError,
        started: float,
    ) -> None:
        self.traffic.failed += 1
        if started > self._failed_at:
            self._failures += 1
        self._failed_at = asyncio.get_running_loop().time()
        self.next_attempt_at = self._failed_at + self._backoff.delay(self._failures)
        self._report(self._outage.on_failure(self._failed_at, reason(error)))
        del self._attempts[purpose]
        outcome.set_exception(error)
        self._on_refused(self, error)

    def _new_outage(self) -> Outage:
        # The reason names the address.
        return Outage(f"cannot reach broker {self.node_id}", f"connected to {self}")

    def _report(self, line: str | None) -> None:
        """Log an outage and its end at the same level, so that a log shows both or neither.

        The cluster reports failures of bootstrap addresses as a whole.
        """
        if line is not None:
            level = logging.WARNING if self.node_id >= 0 else logging.DEBUG
            client_id = self._options.client_id
            extra = {"kafka_client_id": client_id, "kafka_broker": self.node_id}
            log.log(level, "%s: %s", client_id, line, extra=extra)

    def _on_close(
        self,
        purpose: Purpose,
        connection: Connection,
        opened_at: float,
        error: BaseException | None,
    ) -> None:
        self.traffic.closed += 1
        if self._connections.get(purpose) is connection:
            del self._connections[purpose]
            if error is not None:
                self.traffic.lost += 1
                self.next_attempt_at = max(self.next_attempt_at, opened_at + self._backoff.delay(1))
                self._on_lost(self, error)

    def _drop(self, error: KafkaError) -> None:
        """Close all connections and cancel all attempts; every waiting caller receives `error`."""
        connections, self._connections = self._connections, {}
        attempts, self._attempts = self._attempts, {}
        for attempt in attempts.values():
            attempt.task.cancel()
            attempt.outcome.set_exception(error)
        for connection in connections.values():
            connection.close(error)

    def __repr__(self) -> str:
        name = f"broker {self.node_id}" if self.node_id >= 0 else "bootstrap address"
        return f"{name} at {self.node.host}:{self.node.port}"


def closed_error() -> IllegalStateError:
    """The error that every call and wait raises once the cluster is closed."""
    return IllegalStateError("The connection to the cluster is closed")
