"""Asking coordinators: one step of a transaction at a time, as a request to whom it concerns.

A coordinator that is connected is asked at once, and what it answers is told from inside the
connection's reading, so that neither a task nor a pass of the event loop stands between a step and
the next: those were most of what a transaction cost. Only finding a coordinator and connecting to
it, which are rare, take a task.

Non-obvious:
- What came of a step is told once, and never from inside `ask`. A failure is told in a pass of
  its own: a connection fails its requests from anywhere, from inside `ask` too.
- In the newer generation a broker has the transaction's coordinator asked about whatever comes
  first to a partition, or of a group, and gives one such question up for the next of the same
  producer: both have to be asked again, after a pause. So offsets take the connection of the
  records, on which the broker takes up one request after the other.
- No batch is in flight when a transaction ends, so an end goes the way of the records, too, if they
  go to its coordinator: that connection is warm, here and at the broker. But not behind an answer
  that was given up: it may keep silent for good; nor where a quota has the broker not listen.
"""

import asyncio
from typing import Final, Protocol

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.broker import Broker, Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import CoordinatorOf
from aiokafka_lite.errors import KafkaConnectionError, KafkaError, KafkaProtocolError
from aiokafka_lite.group.offsets.messages import TopicIds
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.producer.transactions.coordinator_watch import SilenceWatch
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
_FIND_FOR: Final = 5.0
"""Seconds of one search for a coordinator: nothing else is asked meanwhile, not even an abort."""
_NO_TOPICS: Final = TopicIds({})


class Listener(Protocol):
    """Who is told what came of the steps. The last two do not raise."""

    def on_coordinator(self, level: int, can_bump: bool) -> None:
        """What the transactional id's coordinator knows; see the machine's."""

    def on_found(self, step: FindCoordinator) -> None:
        """A coordinator was found."""

    def on_answer(self, step: Step, answer: Answer) -> None:
        """A coordinator answered; told while its connection reads."""

    def on_failure(self, step: Step, error: KafkaError) -> None:
        """Nobody answered, or the answer cannot be read."""


class Asker:
    """Has the steps of one producer's transactions asked.

    Args:
        cluster: Where the coordinators are.
        transactional_id: The producer's.
        timeout_ms: `transaction_timeout_ms`.
        request_timeout: Seconds one step may take, connecting included.
        listener: Told what came of them.
        tasks: Owner of those who find and connect.
        loop: In which all this is called.
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
        self._silence = SilenceWatch(cluster, tasks, loop)
        self._nodes: dict[tuple[CoordinatorKind, str], int] = {}  # coordinators as found last
        self._coordinator: Connection | None = None  # the listener knows what it can do
        self._task: asyncio.Task[None] | None = None

    def ask(self, step: Step) -> None:
        """Ask a step; none other is under way."""
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
        """Ask no more: what is under way is not told. Idempotent; not after the loop's end."""
        self._silence.close()
        if self._task is not None:
            self._task.cancel()

    async def _find(self, step: FindCoordinator, deadline: float) -> None:
        kind, key = step.place
        before = self._nodes.pop(step.place, None)
        if before is not None:
            self._cluster.coordinators.forget(kind, key, before)
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
            self.on_failure(step, KafkaConnectionError(f"{broker}: not connected in time"))
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
        # Of records that are under way beside it the producer judges by itself.
        leave = in_flight.set_exception if _beside_records(step) else connection.close
        self._silence.watch(step.place, node_id, in_flight, leave)

    def on_response(self, step: Step, ids: TopicIds, response: Response) -> None:
        """A request was answered."""
        try:
            answer = answer_of(step, response, ids)
        except Exception as error:  # not the connection's, which is reading
            self.on_failure(step, error)
        else:
            self._listener.on_answer(step, answer)

    def on_failure(self, step: Step, error: BaseException) -> None:
        """A step came to nothing."""
        if not isinstance(error, KafkaError):
            error = KafkaProtocolError(f"the answer cannot be read: {error!r}")
        self._loop.call_soon(self._listener.on_failure, step, error)


def _beside_records(step: Step) -> bool:
    """It goes the way of the records, while some are under way."""
    return isinstance(step, CommitOffsets) and step.implicit


def _purpose(step: Step) -> Purpose:
    return Purpose.PRODUCE if _beside_records(step) else Purpose.COMMIT


class _InFlight:
    """A step that waits for its answer: whom the connection gives it to."""

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
        """Nobody has to look: the failure is always told."""
