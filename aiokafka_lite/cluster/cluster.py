"""The client's one view of a Kafka cluster: its metadata, kept fresh, and its brokers.

A `Cluster` begins at the bootstrap addresses, learns the brokers from the first that answers, and
from then on asks whichever known broker has the least to do. When none of the known ones answers
it begins again at the bootstrap addresses (KIP-899, KIP-1102), so that a cluster all of whose
addresses changed is found again without a restart.

Everything that decides is elsewhere and has no clock: `metadata` (what an answer means), `topics`
(what to ask about), `refresh` (when). Here are the sockets, the one task, and those who wait.

Non-obvious:
- One task refreshes, so at most one refresh is under way. `request_update` and `add_topic` only
  note a need and wake it; a need noted while a refresh is under way is the next one's.
- `metadata` is replaced, never changed, between two awaits; listeners are called right then, in
  the event loop, and must not block.
- A broker that is asked for metadata and stays silent is given up after `PATIENCE`, long before
  its request times out, and the next one asked: a stopped broker must not hide the failover that
  its stopping caused.
- An answer from a known broker that names another cluster id is not believed: somebody else lives
  at that address now. From a bootstrap address it is, and then nothing of the old cluster counts.
- A start that failed, or was cancelled, leaves nothing behind, and the next one begins anew. Topics
  and listeners stay, and versions go on counting, so nobody mistakes an old one for a new one.
- Who waits, waits for the end of a refresh and then looks for itself whether it has what it needs;
  cancelling one touches no other, and a wait ends by an answer, a lasting error, its deadline or
  the closing, never by nothing.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Iterable, Mapping

from aiokafka_lite import _fork
from aiokafka_lite._arguments import topic_name
from aiokafka_lite._backoff import Backoff
from aiokafka_lite._build import BUILD
from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite._version import __version__
from aiokafka_lite.cluster.bootstrap import parse_bootstrap
from aiokafka_lite.cluster.broker import Broker, Purpose, closed_error
from aiokafka_lite.cluster.brokers import Brokers
from aiokafka_lite.cluster.coordinators import Coordinators
from aiokafka_lite.cluster.large_metadata import MetadataAnswer, MetadataQuestion, read_on
from aiokafka_lite.cluster.metadata import (
    EMPTY,
    LeaderHint,
    Metadata,
    Node,
    Partition,
    metadata_request,
)
from aiokafka_lite.cluster.metadata_merge import Merging
from aiokafka_lite.cluster.metadata_refresh import RefreshSchedule
from aiokafka_lite.cluster.outage import Outage, Repeated, reason
from aiokafka_lite.cluster.tracked_topics import TOPIC_EXPIRY, TrackedTopics
from aiokafka_lite.errors import (
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    NodeNotReadyError,
    for_code,
)
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
)

log = logging.getLogger(__name__)

# Seconds that one broker is given to answer a metadata request (to connect as well, if it must)
# before the next one is asked.
PATIENCE = 5.0

# The longest the refresh task sleeps at a time: no event loop takes an unbounded timer.
_LONGEST_SLEEP = 3600.0

Listener = Callable[[Metadata], None]


class Cluster:
    """Metadata and brokers of one cluster, for one client.

    Args:
        bootstrap: "host:port,..." or a sequence of those or of (host, port).
        options: Of every connection.
        metadata_max_age: Seconds after which good metadata is refreshed unasked.
        retry_backoff: Pause between refreshes, in seconds; doubles while they fail.
        retry_backoff_max: Its bound.
        topic_expiry: Seconds after which a topic added by `add_topic` and no longer used is
            forgotten.
        allow_auto_create_topics: Whether asking about a topic may create it, where the broker is
            set so. Brokers before 0.11 are not told and do as they are set.

    Raises:
        KafkaConfigurationError: From the constructor, for a bootstrap list that is none.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str | tuple[str, int]],
        options: ConnectionOptions,
        *,
        metadata_max_age: float = 300.0,
        retry_backoff: float = 0.1,
        retry_backoff_max: float = 1.0,
        topic_expiry: float = TOPIC_EXPIRY,
        allow_auto_create_topics: bool = True,
    ) -> None:
        self.metadata: Metadata = EMPTY
        self.closed = False
        self.retry_backoff = Backoff(retry_backoff, retry_backoff_max)
        self.coordinators = Coordinators()
        self._allow_auto_create_topics = allow_auto_create_topics
        self._topics = TrackedTopics(topic_expiry)
        self._schedule = RefreshSchedule(metadata_max_age, self.retry_backoff)
        self._listeners: list[Listener] = []
        self._tasks = TaskOwner("cluster", self._on_task_error)
        self._brokers = Brokers(parse_bootstrap(bootstrap), options, self._tasks, self._on_lost)
        self._last_error: KafkaError | None = None  # of the last refresh; None when it went well
        self._name = options.client_id or "client"  # in each line of the log
        self._outage = Outage("no broker answers", "a broker answers")
        self._losses: dict[int, Repeated] = {}  # by node id
        self._introduced = False  # the log says which build begins to connect
        self._waits_for_kafka = False  # the start does: there is nobody to raise a failure to
        self._started = False
        self._refreshing: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()  # set: the refresh task looks at the schedule again
        self._ended = asyncio.Event()  # set, and replaced, at the end of each refresh
        self._forked: KafkaError | None = None  # in a forked child: what every use of it raises
        _fork.watch(self)

    # Life

    async def start(self, deadline: float | None = None) -> None:
        """Connect and learn the brokers. After a failure it can be called again.

        Args:
            deadline: Try again until then (loop time); without one every bootstrap address is
                tried once.

        Raises:
            KafkaConnectionError: No address answered; the message tells what each one said.
            KafkaError: All refused for one lasting reason (credentials, versions).
            IllegalStateError: It is closed, or started already.

        Cancellation: closes what was opened.
        """
        if self.closed:
            self.check_open()
        if self._started:
            raise IllegalStateError("The connection to the cluster is started already")
        self._started = True
        self._waits_for_kafka = deadline is not None
        if not self._introduced:
            self._introduced = True
            log.info(
                "%s: aiokafka_lite %s (%s) connects to %s",
                self._name,
                __version__,
                BUILD,
                self._brokers,
            )
        try:
            self._refreshing = self._tasks.spawn(self._keep_fresh(), "refresh metadata")
            self._refreshing.add_done_callback(self._on_refreshing_done)
            async with asyncio.timeout_at(deadline):
                while self.metadata.version == 0:
                    await self._ended.wait()
                    self.check_open()
                    error = self._last_error
                    if error is not None and (deadline is None or not error.retriable):
                        raise copy.copy(error)
        except TimeoutError:
            error = self._last_error or KafkaConnectionError(
                f"Unable to bootstrap from {self._brokers}: no answer in time"
            )
            self.reset()
            raise error from None
        except BaseException:
            self.reset()
            raise

    @property
    def started(self) -> bool:
        """True from the begin of a start until the end, or until that start fails."""
        return self._started

    def reset(self) -> None:
        """Undo a start: close every connection and forget what was learned. Does nothing once it
        is closed."""
        if self.closed:
            return
        self._started = False
        if self._refreshing is not None:
            refreshing, self._refreshing = self._refreshing, None
            refreshing.cancel()
        self.metadata = EMPTY
        self.coordinators = Coordinators()
        self._last_error = None
        self._schedule.begin_anew()
        self._brokers.begin_anew()
        self._end_refresh()  # those who wait find that it is not started

    async def close(self, deadline: float) -> None:
        """Close every connection; end every wait with IllegalStateError. Idempotent.

        Args:
            deadline: Loop time by which this returns, whatever a broker does.
        """
        if self._forked is None:
            self.abort()
            await self._tasks.close(deadline)

    def abort(self) -> None:
        """What `close` does, at once and without awaiting (from a finalizer, say). Idempotent."""
        if self.closed:
            return
        self.closed = True
        self._brokers.close()
        self._wake.set()  # ends the refresh task
        self._end_refresh()

    def _on_forked(self) -> None:
        self.closed = True
        self._forked = _fork.forked_error("client")

    # Metadata

    def add_topic(self, name: str) -> int:
        """Note that a topic is used: keep metadata of it until it was unused for `topic_expiry`.

        Returns:
            The version to wait beyond to be told of it (see `wait_for_version`).

        Raises:
            TypeError, InvalidTopicError: No name of a topic, or one that no request can carry.
        """
        self._topics.add(topic_name(name))
        if name in self.metadata.topics:
            return self.metadata.version - 1
        return self._ask_for([name])

    def set_topics(self, names: Iterable[str] | None) -> int:
        """Keep metadata of exactly these topics (None: of all), beside those added.

        Returns:
            The version to wait beyond to be told of them all.

        Raises:
            TypeError, InvalidTopicError: As of `add_topic`; nothing has changed then.
        """
        names = None if names is None else [topic_name(name) for name in names]
        had_all = self._topics.all
        self._topics.pin(names)
        if self._topics.all:
            return self.metadata.version - 1 if had_all else self.request_update()
        unknown = [name for name in self._topics.names if name not in self.metadata.topics]
        return self._ask_for(unknown) if unknown else self.metadata.version - 1

    @property
    def last_error(self) -> KafkaError | None:
        """Why the last refresh of the metadata failed; None if it succeeded."""
        return self._last_error

    def metadata_age(self, now: float) -> float:
        """Seconds since the metadata was refreshed; infinite before the first time."""
        return self._schedule.age(now)

    def request_update(self) -> int:
        """Have everything asked for again, as soon as the backoff allows.

        Returns:
            The version to wait beyond: metadata newer than it was asked for after this call.
        """
        self._wake.set()
        return self._schedule.request_all()

    async def wait_for_version(self, newer_than: int, deadline: float) -> Metadata:
        """The first metadata newer than a version.

        Args:
            newer_than: What `request_update` or `add_topic` returned.
            deadline: In loop time.

        Raises:
            KafkaTimeoutError: Nothing newer came by then; its cause is the last refresh's error.
            KafkaError: A refresh failed for a lasting reason, such as refused credentials.
            IllegalStateError: The cluster is closed, or not started.

        Cancellation: stops this wait; the refresh goes on.
        """
        try:
            async with asyncio.timeout_at(deadline):
                self.check_open()
                while self.metadata.version <= newer_than:
                    await self._ended.wait()
                    self.check_open()
                    if self._last_error is not None and not self._last_error.retriable:
                        # A copy: one error raised for all would collect all their tracebacks.
                        raise copy.copy(self._last_error)
                return self.metadata
        except TimeoutError:
            why = f": {self._last_error}" if self._last_error else ""
            raise KafkaTimeoutError(f"No newer metadata came in time{why}") from self._last_error

    async def refresh(self, deadline: float) -> Metadata:
        """Metadata that was asked for after this call; see `wait_for_version`.

        However many callers wait, at most one refresh is under way and one more is due.
        """
        self.check_open()
        return await self.wait_for_version(self.request_update(), deadline)

    async def partitions_of(self, topic: str, deadline: float) -> Mapping[int, Partition]:
        """The partitions of a topic, waiting for it to be known (and created, where allowed).

        Args:
            deadline: In loop time.

        Raises:
            InvalidTopicError, TopicAuthorizationFailedError: The broker's answer, at once.
            KafkaTimeoutError: The topic was not known by then; its cause tells what was said.
            IllegalStateError: The cluster is closed.

        Cancellation: stops this wait only.
        """
        self.check_open()
        self._topics.add(topic_name(topic))
        known = self.metadata.topics.get(topic)
        if known is not None and known.error is None and known.partitions:
            return known.partitions
        # An error known so far was the answer to somebody else's question: ask again.
        number = self._ask_for([topic])
        try:
            while True:
                metadata = await self.wait_for_version(number, deadline)
                number, known = metadata.version, metadata.topics.get(topic)
                if known is None:  # forgotten as unused, so long we have waited
                    number = self.add_topic(topic)
                elif known.refused and known.error is not None:
                    raise known.error(topic)
                elif known.error is None and known.partitions:
                    return known.partitions
        except KafkaTimeoutError as error:
            said = error if known is None or known.error is None else known.error(topic)
            raise KafkaTimeoutError(f"Topic {topic!r} was not known in time: {said}") from said

    def apply_leader_hints(self, hints: Iterable[LeaderHint]) -> bool:
        """Believe the leaders told in a produce or fetch response whose epochs are newer (KIP-951).

        Args:
            hints: All of one response: a broker that loses its leaderships tells them at once.

        Returns:
            Whether they told something new; then the listeners have been called, once.
            `metadata.version` stays: no refresh took place.
        """
        told = self.metadata.with_leaders(hints)
        if told is self.metadata:
            return False
        self._adopt(told)
        return True

    def learn_node(self, node: Node) -> None:
        """Know one node more, told by a coordinator look-up before any refresh does."""
        told = self.metadata.with_node(node)
        if told is not self.metadata:
            self._adopt(told)

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` with each new snapshot, in the event loop, right when it is adopted."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Undo `add_listener`; does nothing if it was not added."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    # Brokers

    def broker(self, node_id: int) -> Broker:
        """The broker of a node id.

        Raises:
            NodeNotReadyError: The metadata does not name it (any more); refresh and look again.
            IllegalStateError: The cluster is closed.
        """
        self.check_open()
        if node_id not in self.metadata.brokers:
            raise NodeNotReadyError(f"Broker {node_id} is not alive as far as is known")
        return self._brokers[node_id]

    def least_loaded(self) -> Broker | None:
        """The live broker with the fewest requests in flight, beginning at a random one.

        Among equals a connected one is preferred. None while all are blacked out.
        """
        self.check_open()
        return self._brokers.least_loaded()

    def any_broker(self) -> Broker:
        """The least loaded broker or, while all are blacked out, the one to be dialled first.

        While no known broker can be dialled it may be a bootstrap address.
        """
        self.check_open()
        broker = self._brokers.next_to_ask()
        if broker is None:
            raise NoBrokersAvailable(f"No broker to ask, of those at {self._brokers}")
        return broker

    def check_open(self) -> None:
        """Raises IllegalStateError if the cluster is closed or was not started, or if this is a
        forked child."""
        if self._forked is not None:
            raise copy.copy(self._forked)
        if self.closed:
            raise closed_error()
        if not self._started:
            raise IllegalStateError("The connection to the cluster was not started")

    def _on_lost(self, broker: Broker, error: BaseException) -> None:
        """A connection was lost: the broker may have gone, and its partitions have moved."""
        losses = self._losses.setdefault(broker.node_id, Repeated())
        count = losses.on_event(asyncio.get_running_loop().time())
        if count is not None:
            times = f" ({count} times since the last such line)" if count > 1 else ""
            log.info("%s: connection to %s lost%s: %s", self._name, broker, times, error)
        self.request_update()

    # The refresh

    def _ask_for(self, names: Iterable[str]) -> int:
        self._wake.set()
        return self._schedule.request_new(names)

    async def _keep_fresh(self) -> None:
        """The task: refreshes whenever the schedule says so, until the cluster is closed."""
        loop = asyncio.get_running_loop()
        while not self.closed:
            pause = self._schedule.time_to_next(loop.time())
            if pause <= 0:
                await self._refresh()
                continue
            self._wake.clear()
            try:
                async with asyncio.timeout(min(pause, _LONGEST_SLEEP)):
                    await self._wake.wait()
            except TimeoutError:
                pass  # the pause is over

    def _on_refreshing_done(self, task: asyncio.Task[None]) -> None:
        if task is self._refreshing:
            self.abort()  # whatever ended it: a closed client is better than one that hangs

    async def _refresh(self) -> None:
        """One refresh: asks one broker after the other until one answers."""
        asked = self._schedule.take_names(self._topics.names)
        if asked is None and not self._topics.all:
            asked = self._topics.names
        errors: dict[Broker, KafkaError] = {}
        while not self.closed:
            broker = self._brokers.next_to_ask(errors)
            if broker is None:
                break
            try:
                # At the very beginning there may be nobody who could be asked instead.
                others = self._brokers.next_to_ask((*errors, broker)) is not None
                async with asyncio.timeout(PATIENCE if self.metadata.version or others else None):
                    response, api_version = await self._ask(broker, asked)
                merging = Merging(
                    self.metadata, api_version=api_version, asked=asked, keep=self._topics.wants
                )
                await read_on(response, merging, api_version)
                self._on_answer(broker, response, merging, asked)
                return
            except KafkaError as error:
                errors[broker] = error
            except TimeoutError:
                errors[broker] = KafkaTimeoutError(f"no answer in {PATIENCE:g} s")
            except Exception as error:  # an answer that makes no sense, or a mistake of ours
                log.exception("%s: cannot decode the metadata from %s", self._name, broker)
                errors[broker] = NoBrokersAvailable(repr(error))
        if self.closed:
            return
        now = asyncio.get_running_loop().time()
        self._schedule.on_failure(now)
        said = "; ".join(f"{broker}: {reason(error)}" for broker, error in errors.items())
        self._last_error = _failure(errors, said)
        if self.metadata.version or self._waits_for_kafka:  # else the start raises it
            line = self._outage.on_failure(now, said)
            if line is not None:
                log.warning("%s: %s", self._name, line)
        self._end_refresh()

    async def _ask(
        self, broker: Broker, asked: frozenset[str] | None
    ) -> tuple[MetadataAnswer, int]:
        connection = await broker.connection(Purpose.GENERAL)
        api_version = connection.version_of(MetadataRequest)
        request = metadata_request(asked, api_version, self._allow_auto_create_topics)
        return await connection.request(MetadataQuestion(request), api_version), api_version

    def _on_answer(
        self,
        broker: Broker,
        response: MetadataResponse,
        merging: Merging,
        asked: frozenset[str] | None,
    ) -> None:
        if self.closed:
            return
        if response.error_code:  # Metadata v13: REBOOTSTRAP_REQUIRED (KIP-1102), and so on
            raise for_code(response.error_code)(f"{broker} does not answer for the cluster")
        expected = self.metadata.cluster_id
        if broker.node_id >= 0 and expected and response.cluster_id not in (None, expected):
            broker.disconnect()
            raise KafkaConnectionError(
                f"{broker} belongs to cluster {response.cluster_id}, not {expected}"
            )
        now = asyncio.get_running_loop().time()
        told = merging.finish(response, version=self._schedule.number, current=self.metadata)
        self._topics.on_answer(now)
        unsettled = {
            name
            for name in (self._topics.names if asked is None else asked)
            if name in self._topics and (name not in told.topics or not told.topics[name].settled)
        }
        self._schedule.on_answer(now, unsettled)
        self._last_error = None
        line = self._outage.on_success(now)
        if line is not None:  # at the level of the outage: who sees the one is to see the other
            log.warning("%s: %s", self._name, line)
        self._adopt(told)
        self._brokers.leave_seeds()
        self._end_refresh()

    def _adopt(self, told: Metadata) -> None:
        """Make a snapshot the present one. No await from here to the last listener."""
        self.metadata = told
        self._brokers.update(told.brokers.values())
        for listener in tuple(self._listeners):
            try:
                listener(self.metadata)  # which an earlier one may have changed by a hint
            except Exception:
                log.exception("%s: a listener of the metadata failed: %r", self._name, listener)

    def _end_refresh(self) -> None:
        """Wake all who wait; each looks for itself whether it has what it waits for."""
        ended, self._ended = self._ended, asyncio.Event()
        ended.set()

    def _on_task_error(self, name: str, error: BaseException) -> None:
        """A task ended by a bug."""
        log.error("%s: %s failed", self._name, name, exc_info=error)


def _failure(errors: dict[Broker, KafkaError], said: str) -> KafkaError:
    """One error for a refresh that nobody answered; `said` is what each one failed of."""
    kinds = {type(error) for error in errors.values()}
    if len(kinds) == 1 and not (kind := kinds.pop()).retriable:
        return kind(said)
    return KafkaConnectionError(f"no broker answers: {said}")
