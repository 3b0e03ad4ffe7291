"""The client's view of a Kafka cluster: up-to-date metadata, and the brokers.

A `Cluster` starts with the bootstrap addresses, gets the list of brokers from the first one that
answers, and then sends requests to the least loaded known broker. The modules in `refresh` keep its
metadata up to date, so it finds a cluster whose addresses have all changed, without a restart.

Non-obvious:
- `metadata` is replaced between two awaits and never modified. Listeners run right then, in the
  event loop, and must not block.
- A start that fails or is cancelled leaves nothing behind, and the next one starts from scratch.
  Topics and listeners stay, and versions keep increasing, so that an old version never looks new.
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
from aiokafka_lite.cluster.large_metadata import MetadataAnswer, MetadataQuestion
from aiokafka_lite.cluster.metadata import (
    EMPTY,
    LeaderHint,
    Metadata,
    Node,
    Partition,
    metadata_request,
)
from aiokafka_lite.cluster.outage import Repeated
from aiokafka_lite.cluster.reach import Reach, reach
from aiokafka_lite.cluster.refresh.metadata_waits import MetadataWaits
from aiokafka_lite.cluster.refresh.recovery import Recovery
from aiokafka_lite.cluster.refresh.refresh_task import RefreshTask
from aiokafka_lite.cluster.refresh.tracked_topics import TOPIC_EXPIRY, TrackedTopics
from aiokafka_lite.cluster.silent_brokers import SilentBrokers
from aiokafka_lite.errors import (
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    NoBrokersAvailable,
    NodeNotReadyError,
)
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.traffic import connection_metrics
from aiokafka_lite.protocol.messages.metadata import MetadataRequest

log = logging.getLogger(__name__)

Listener = Callable[[Metadata], None]


class Cluster:
    """Metadata and brokers of one cluster, for one client.

    Args:
        bootstrap: "host:port,..." or a sequence of those or of (host, port).
        options: Options of every connection.
        metadata_max_age: Metadata is refreshed at least this often, in seconds.
        retry_backoff: Pause between refreshes, in seconds; doubles while they fail.
        retry_backoff_max: Upper bound of that pause, in seconds.
        topic_expiry: Seconds after which an unused topic from `add_topic` is dropped.
        allow_auto_create_topics: True if a metadata request may create a topic, where the broker
            allows it. Brokers before 0.11 ignore this and follow their own configuration.

    Raises:
        KafkaConfigurationError: The bootstrap list is invalid; raised by the constructor.
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
        self._name = options.client_id or "client"  # in every log line
        self._log_fields: dict[str, object] = {"kafka_client_id": self._name}
        self._allow_auto_create_topics = allow_auto_create_topics
        self._topics = TrackedTopics(topic_expiry)
        self._listeners: list[Listener] = []
        self._tasks = TaskOwner("cluster", self._on_task_error)
        recovery = Recovery(options.rebootstrap_after)
        self._check_identity = options.check_identity
        self._brokers = Brokers(
            parse_bootstrap(bootstrap),
            options,
            self._tasks,
            self._on_lost,
            self._on_refused,
            lambda: self.metadata.cluster_id if self._check_identity else None,
            recovery.enabled,
        )
        self._waits = MetadataWaits(lambda: self.metadata, self.check_open)
        self._refresh = RefreshTask(
            self._brokers,
            self._topics,
            self._waits,
            recovery,
            options,
            ask=self._ask,
            current=lambda: self.metadata,
            on_refreshed=self._on_refreshed,
            on_rebootstrap=self._adopt,
            name=self._name,
            max_age=metadata_max_age,
            backoff=self.retry_backoff,
        )
        self._silent = SilentBrokers(self._brokers, self.request_update, self._name)
        self._losses: dict[int, Repeated] = {}  # by node id
        self._introduced = False  # True once the log names the version and build
        self._started = False
        self._refreshing: asyncio.Task[None] | None = None
        self._forked: KafkaError | None = None  # in a forked child: the error that every use raises
        _fork.watch(self)

    # Life

    async def start(self, deadline: float | None = None) -> None:
        """Connect and load the brokers. It can be called again after a failure.

        Args:
            deadline: Retry until this loop time; None: try every bootstrap address once.

        Raises:
            KafkaConnectionError: No address answered; the message has the reason of each.
            KafkaError: All addresses failed with the same lasting error (credentials, versions).
            IllegalStateError: The cluster is closed or already started.

        Cancellation: closes all connections opened so far.
        """
        if self.closed:
            self.check_open()
        if self._started:
            raise IllegalStateError("The connection to the cluster has already been started")
        self._started = True
        if not self._introduced:
            self._introduced = True
            log.info(
                "%s: aiokafka_lite %s (%s) is connecting to %s",
                self._name,
                __version__,
                BUILD,
                self._brokers,
                extra=self._log_fields,
            )
        began = asyncio.get_running_loop().time()
        try:
            # With a deadline, `start` retries instead of raising, so the log must report the error.
            refreshing = self._refresh.run(log_first=deadline is not None)
            self._refreshing = self._tasks.spawn(refreshing, "refresh metadata")
            self._refreshing.add_done_callback(self._on_refreshing_done)
            await self._waits.for_start(deadline)
        except TimeoutError:
            passed = asyncio.get_running_loop().time() - began
            error = self.last_error or KafkaConnectionError(
                f"Unable to bootstrap from {self._brokers}: "
                f"no broker answered within {passed:.3g} s"
            )
            self.reset()
            raise error from None
        except BaseException:
            self.reset()
            raise

    @property
    def bootstrap_servers(self) -> list[str]:
        """The addresses that the cluster was configured with, as "host:port"."""
        return self._brokers.bootstrap_servers

    @property
    def client_id(self) -> str:
        """The client's id, or "client" if it has none; every log line begins with it."""
        return self._name

    @property
    def started(self) -> bool:
        """True from the beginning of `start` until it fails or the cluster is reset."""
        return self._started

    def reset(self) -> None:
        """Undo a start: close every connection and discard the metadata. No-op once closed."""
        if self.closed:
            return
        self._started = False
        if self._refreshing is not None:
            refreshing, self._refreshing = self._refreshing, None
            refreshing.cancel()
        self.metadata = EMPTY
        self.coordinators = Coordinators()
        self._waits.record(None)
        self._refresh.schedule.begin_anew()
        self._silent.close()
        self._brokers.begin_anew()
        self._waits.wake()  # waiting callers see that the cluster is not started

    async def close(self, deadline: float) -> None:
        """Close every connection; end every wait with IllegalStateError. Idempotent.

        Args:
            deadline: Loop time by which this returns, even if a broker does not respond.
        """
        if self._forked is None:
            self.abort()
            await self._tasks.close(deadline)

    def abort(self) -> None:
        """Close at once without awaiting, such as from a finalizer. Idempotent."""
        if self.closed:
            return
        self.closed = True
        self._silent.close()
        self._brokers.close()
        self._refresh.close()
        self._waits.wake()

    def _on_forked(self) -> None:
        self.closed = True
        self._forked = _fork.forked_error("client")

    # Metadata

    def add_topic(self, name: str) -> int:
        """Mark a topic as used: keep its metadata until it is unused for `topic_expiry`.

        Returns:
            Pass it to `wait_for_version` to wait for the topic's metadata.

        Raises:
            TypeError, InvalidTopicError: `name` is not a valid topic name.
        """
        self._topics.add(topic_name(name))
        if name in self.metadata.topics:
            return self.metadata.version - 1
        return self._refresh.request_new([name])

    def set_topics(self, names: Iterable[str] | None) -> int:
        """Keep metadata of exactly these topics (None: all), in addition to those added.

        Returns:
            Pass it to `wait_for_version` to wait for the metadata of all of them.

        Raises:
            TypeError, InvalidTopicError: As in `add_topic`; the topics are unchanged.
        """
        names = None if names is None else [topic_name(name) for name in names]
        had_all = self._topics.all
        self._topics.pin(names)
        if self._topics.all:
            return self.metadata.version - 1 if had_all else self.request_update()
        unknown = [name for name in self._topics.names if name not in self.metadata.topics]
        return self._refresh.request_new(unknown) if unknown else self.metadata.version - 1

    @property
    def last_error(self) -> KafkaError | None:
        """The error of the last metadata refresh; None if it succeeded."""
        return self._waits.last_error

    def metadata_age(self, now: float) -> float:
        """Seconds since the last full metadata refresh; infinite before the first."""
        return self._refresh.schedule.age(now)

    def reach(self, now: float) -> Reach:
        """Which brokers answer, judged without sending a request.

        Args:
            now: In loop time.
        """
        return reach(self._brokers, now, self.last_error, self.metadata_age(now), ended=self.closed)

    def connection_metrics(self, now: float) -> dict[str, float | None]:
        """Kafka's metrics of this client's connections; `now` is loop time."""
        return connection_metrics((broker.traffic for broker in self._brokers), now)

    def node_metrics(self, now: float) -> dict[int, dict[str, float | None]]:
        """Kafka's metrics of each broker by node id; `now` is loop time."""
        return {
            broker.node_id: broker.traffic.metrics(now)
            for broker in self._brokers
            if broker.node_id >= 0
        }

    def request_update(self) -> int:
        """Request a full metadata refresh, as soon as the backoff allows.

        Returns:
            A version: any newer metadata was requested after this call.
        """
        return self._refresh.request_all()

    async def wait_for_version(self, newer_than: int, deadline: float) -> Metadata:
        """Wait for the first metadata newer than a version.

        Args:
            newer_than: The result of `request_update` or `add_topic`.
            deadline: In loop time.

        Raises:
            KafkaTimeoutError: No newer metadata arrived; its cause is the last refresh's error.
            KafkaError: A refresh failed with a lasting error, such as refused credentials.
            IllegalStateError: The cluster is closed or not started.

        Cancellation: stops this wait; the refresh continues.
        """
        return await self._waits.for_version(newer_than, deadline)

    async def refresh(self, deadline: float) -> Metadata:
        """Metadata that was requested after this call; see `wait_for_version`.

        However many callers wait, at most one refresh is in progress and one more is due.
        """
        self.check_open()
        return await self.wait_for_version(self.request_update(), deadline)

    async def partitions_of(self, topic: str, deadline: float) -> Mapping[int, Partition]:
        """The partitions of a topic; waits until it is known (and created, where allowed).

        Args:
            deadline: In loop time.

        Raises:
            InvalidTopicError, TopicAuthorizationFailedError: The broker's error, raised at once.
            KafkaTimeoutError: The topic was not known in time; its cause is the last error. An
                UnknownTopicTimeoutError if it did not exist.
            IllegalStateError: The cluster is closed.

        Cancellation: stops this wait only.
        """
        self.check_open()
        self._topics.add(topic_name(topic))
        known = self.metadata.topics.get(topic)
        if known is not None and known.error is None and known.partitions:
            return known.partitions
        # A known error came with another caller's request: ask again.
        requested = self._refresh.request_new([topic])
        return await self._waits.for_partitions(topic, requested, deadline, self.add_topic)

    def apply_leader_hints(self, hints: Iterable[LeaderHint]) -> bool:
        """Adopt newer leaders from a produce or fetch response (KIP-951).

        Args:
            hints: All hints of one response: a broker that loses leaderships reports them together.

        Returns:
            True if a hint was new; the listeners have then been called, once. `metadata.version`
            does not change, because no refresh took place.
        """
        newer = self.metadata.with_leaders(hints)
        if newer is self.metadata:
            return False
        self._adopt(newer)
        return True

    def learn_node(self, node: Node) -> None:
        """Add a node from a coordinator lookup that the metadata does not have yet."""
        newer = self.metadata.with_node(node)
        if newer is not self.metadata:
            self._adopt(newer)

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` with each new snapshot, in the event loop, as soon as it is adopted."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Remove a listener; does nothing if it was not added."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    # Brokers

    def broker(self, node_id: int) -> Broker:
        """The broker with a node id.

        Raises:
            NodeNotReadyError: The metadata does not list it; refresh and try again.
            IllegalStateError: The cluster is closed.
        """
        self.check_open()
        if node_id not in self.metadata.brokers:
            raise NodeNotReadyError(f"Broker {node_id} is not in the metadata; it may be down")
        return self._brokers[node_id]

    def least_loaded(self) -> Broker | None:
        """The live broker with the fewest requests in flight; None if all are blacked out.

        Ties go to connected brokers, then to a random one.
        """
        self.check_open()
        return self._brokers.least_loaded()

    def any_broker(self) -> Broker:
        """The least loaded broker or, if all are blacked out, the one whose backoff ends first.

        It may be a bootstrap address while all known brokers are blacked out.
        """
        self.check_open()
        broker = self._brokers.next_to_ask()
        if broker is None:
            raise NoBrokersAvailable(f"No broker is available; bootstrap servers: {self._brokers}")
        return broker

    def expect_answer(self) -> None:
        """A produce or fetch request was just sent: abandon its broker if it does not respond and
        the cluster removes it."""
        self._silent.expect_answer()

    def lacks_api(self, api_key: int) -> bool:
        """True if there are open connections, and no broker on the other side offers an API."""
        versions = [
            each.versions for broker in self._brokers for each in broker.connections.values()
        ]
        return bool(versions) and not any(each.supports(api_key) for each in versions)

    def check_open(self) -> None:
        """Raise IllegalStateError if the cluster is closed or not started, or in a forked child."""
        if self._forked is not None:
            raise copy.copy(self._forked)
        if self.closed:
            raise closed_error()
        if not self._started:
            raise IllegalStateError(
                "The connection to the cluster is not started: call `start()` first"
            )

    def _on_lost(self, broker: Broker, error: BaseException) -> None:
        """A connection was lost: the broker may be down and its partitions may have moved."""
        losses = self._losses.setdefault(broker.node_id, Repeated())
        count = losses.on_event(asyncio.get_running_loop().time())
        if count is not None:
            times = f" ({count} times since the last report)" if count > 1 else ""
            extra = {**self._log_fields, "kafka_broker": broker.node_id}
            text = "%s: connection to %s lost%s: %s"
            log.info(text, self._name, broker, times, error, extra=extra)
        self.request_update()

    def _on_refused(self, broker: Broker, error: KafkaError) -> None:
        self._refresh.on_refused(broker, error)

    async def _ask(
        self, broker: Broker, asked: frozenset[str] | None
    ) -> tuple[MetadataAnswer, int]:
        """Request metadata of these topics (None: of all). Overridden for controllers.

        Returns:
            The response, and the version of Metadata to interpret it by.
        """
        connection = await broker.connection(Purpose.GENERAL)
        api_version = connection.version_of(MetadataRequest)
        request = metadata_request(asked, api_version, self._allow_auto_create_topics)
        return await connection.request(MetadataQuestion(request), api_version), api_version

    # Metadata that changed

    def _on_refreshing_done(self, task: asyncio.Task[None]) -> None:
        if task is self._refreshing:
            self.abort()  # even after an error: a closed client is better than one that hangs

    def _on_refreshed(self, newer: Metadata) -> None:
        self._adopt(newer)
        self._silent.on_refreshed(newer.brokers)

    def _adopt(self, newer: Metadata) -> None:
        """Make a snapshot the current one. There is no await from here to the last listener."""
        self.metadata = newer
        self._brokers.update(newer.brokers.values())
        for listener in tuple(self._listeners):
            try:
                listener(self.metadata)  # an earlier listener may have replaced it with a hint
            except Exception:
                log.exception(
                    "%s: the metadata listener %r failed",
                    self._name,
                    listener,
                    extra=self._log_fields,
                )

    def _on_task_error(self, name: str, error: BaseException) -> None:
        """A task ended by a bug."""
        log.error("%s: %s failed", self._name, name, exc_info=error, extra=self._log_fields)
