"""Sends the steps of a transaction to their coordinators, one at a time.

If the coordinator is connected, the request is sent at once, and its answer is reported while the
connection reads it. So there is neither a task nor an iteration of the event loop between two
steps; those were most of the cost of a transaction. Only finding a coordinator and connecting to
it, which are rare, take a task.

Non-obvious:
- The outcome of a step is reported once, and never inside `ask`. A failure is reported in its own
  iteration of the loop, because a connection may fail its requests at any time, even inside `ask`.
- In the newer generation, the first request for a partition or a group makes the broker verify the
  transaction with its coordinator. The broker drops a pending verification when the next one of the
  same producer arrives; then both requests must be retried after a pause. So offsets use the
  connection of the records, on which the broker processes one request after the other.
- No batch is in flight when a transaction ends. So the end uses the connection of the records too,
  if they go to its coordinator: that connection is warm, here and at the broker. It is not used if
  an earlier answer on it was abandoned, because that answer may never arrive; nor while a quota
  mutes it.
"""

import asyncio
from typing import Final, Protocol

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.broker import Broker, Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinator_watch import CoordinatorWatch
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import CoordinatorOf
from aiokafka_lite.errors import KafkaConnectionError, KafkaError, KafkaProtocolError
from aiokafka_lite.group.offsets.messages import TopicIds
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.producer.transactions.transaction_requests import BUMPS_FROM, answer_of, question
from aiokafka_lite.producer.transactions.transaction_steps import (
    Answer,
    CommitOffsets,
    EndTransaction,
    FindCoordinator,
    Step,
)
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.protocol.message import Response

__all__ = ["Asker", "Listener"]

_FEATURE: Final = "transaction.version"
SILENT_FOR: Final = 3.0
"""Seconds without an answer before the coordinator is looked up, and between two look-ups."""
_FIND_FOR: Final = 5.0
"""Seconds for one coordinator lookup; nothing else is sent meanwhile, not even an abort."""
_NO_TOPICS: Final = TopicIds({})


class Listener(Protocol):
    """Receives the outcome of the steps. `on_answer` and `on_failure` must not raise."""

    def on_coordinator(self, level: int, can_bump: bool) -> None:
        """Set the coordinator's features; see `TransactionMachine.on_coordinator`."""

    def on_found(self, step: FindCoordinator) -> None:
        """A coordinator was found."""

    def on_answer(self, step: Step, answer: Answer) -> None:
        """A coordinator answered; called while its connection reads."""

    def on_failure(self, step: Step, error: KafkaError) -> None:
        """The request failed, or the answer cannot be read."""


class Asker:
    """Sends the steps of one producer's transactions.

    Args:
        cluster: The cluster of the coordinators.
        transactional_id: The producer's transactional id.
        timeout_ms: `transaction_timeout_ms`.
        request_timeout: Seconds that one step may take, connecting included.
        listener: Receives the outcomes.
        tasks: Owns the tasks that find coordinators and connect to them.
        loop: The producer's event loop.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        timeout_ms: int,
        request_timeout: float,
        listener: Listener,
        tasks: TaskOwner,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._request_timeout = request_timeout
        self._listener = listener
        self._tasks = tasks
        self._loop = loop
        self._watch = CoordinatorWatch(cluster, SILENT_FOR, tasks.spawn, loop)
        self._nodes: dict[tuple[CoordinatorKind, str], int] = {}  # coordinators found last
        self._coordinator: Connection | None = None  # the listener has its features
        self._task: asyncio.Task[None] | None = None

    def ask(self, step: Step) -> None:
        """Send a step; no other step may be under way."""
        deadline = self._loop.time() + self._request_timeout
        if isinstance(step, FindCoordinator):
            self._task = self._tasks.spawn(self._find(step, deadline), "find a coordinator")
            return
        try:
            broker = self._cluster.broker(self._nodes[step.place])
            connection = broker.connected(_purpose(step))
            if isinstance(step, EndTransaction):
                warm = broker.connected(Purpose.PRODUCE)
                if warm is not None and not warm.in_flight and warm.listens:
                    connection = warm
            if connection is not None:
                self._send(step, connection, broker.node_id, deadline)
                return
        except KafkaError as error:
            self.on_failure(step, error)
            return
        reaching = self._reach(step, broker, deadline)
        self._task = self._tasks.spawn(reaching, "connect to a coordinator")

    def close(self) -> None:
        """Stop without reporting the current step. Idempotent; the loop must not be closed."""
        self._watch.close()
        if self._task is not None:
            self._task.cancel()

    async def _find(self, step: FindCoordinator, deadline: float) -> None:
        kind, key = step.place
        # Without a last connection, the cached one could not be used either.
        self._cluster.coordinators.forget(kind, key, self._nodes.pop(step.place, None))
        try:
            until = min(deadline, self._loop.time() + _FIND_FOR)
            broker = await CoordinatorOf(key, kind).find(self._cluster, -1, until)
        except KafkaError as error:
            self.on_failure(step, error)
        else:
            self._nodes[step.place] = broker.node_id
            self._listener.on_found(step)

    async def _reach(self, step: Step, broker: Broker, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                connection = await broker.connection(_purpose(step))
            self._send(step, connection, broker.node_id, deadline)
        except TimeoutError:
            self.on_failure(
                step,
                KafkaConnectionError(f"{broker}: not connected within {self._request_timeout:g} s"),
            )
        except KafkaError as error:
            self.on_failure(step, error)

    def _send(self, step: Step, connection: Connection, node_id: int, deadline: float) -> None:
        if step.place[0] is CoordinatorKind.TRANSACTION and connection is not self._coordinator:
            self._coordinator = connection
            versions = connection.versions
            self._listener.on_coordinator(
                versions.features.get(_FEATURE, 0),
                versions.supports(ApiKey.INIT_PRODUCER_ID, BUMPS_FROM),
            )
        ids = _NO_TOPICS
        if isinstance(step, CommitOffsets):
            ids = TopicIds.of(self._cluster.metadata, {tp.topic for tp in step.offsets})
        asked = question(step, self._transactional_id, self._timeout_ms, ids)
        version = connection.version_of(asked.request.request_class, asked.latest, asked.oldest)
        request = asked.request.build(version)
        in_flight = _InFlight(self, step, ids)
        left = max(deadline - self._loop.time(), 0.0)
        connection.send_for(in_flight, request, version, timeout=left)
        # Do not close a connection shared with records: the sender decides about those.
        leave = in_flight.set_exception if _beside_records(step) else connection.close
        self._watch.watch(*step.place, node_id, in_flight, leave)

    def on_response(self, step: Step, ids: TopicIds, response: Response) -> None:
        """A request was answered."""
        try:
            answer = answer_of(step, response, ids)
        except Exception as error:  # an error here must not fail the connection, which is reading
            self.on_failure(step, error)
        else:
            self._listener.on_answer(step, answer)

    def on_failure(self, step: Step, error: BaseException) -> None:
        """A step failed."""
        if not isinstance(error, KafkaError):
            error = KafkaProtocolError(f"the response cannot be read: {error!r}")
        self._loop.call_soon(self._listener.on_failure, step, error)


def _beside_records(step: Step) -> bool:
    """True if the step shares the records' connection while records are in flight."""
    return isinstance(step, CommitOffsets) and step.implicit


def _purpose(step: Step) -> Purpose:
    return Purpose.PRODUCE if _beside_records(step) else Purpose.COMMIT


class _InFlight:
    """A step in flight, to which the connection passes the answer."""

    __slots__ = ("_asker", "_done", "_ids", "_step")

    def __init__(self, asker: Asker, step: Step, ids: TopicIds) -> None:
        self._asker = asker
        self._step = step
        self._ids = ids
        self._done = False

    def done(self) -> bool:
        return self._done

    def set_result(self, response: Response, /) -> None:
        self._done = True
        self._asker.on_response(self._step, self._ids, response)

    def set_exception(self, exception: BaseException, /) -> None:
        self._done = True
        self._asker.on_failure(self._step, exception)

    def exception(self) -> None:
        """Do nothing: the failure is always reported."""
