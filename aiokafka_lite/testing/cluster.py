"""``FakeCluster``: a Kafka in the process, for tests and first steps.

    async with FakeCluster(topics={"orders": 6}) as cluster:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

Everything lies in memory and is gone with it. In a test without an event loop, ``with`` instead
of ``async with`` runs the cluster in a thread of its own; its methods may be called from any
thread then, and ``cluster.run(cluster.restart(0))`` awaits the coroutines among them.

The cluster owns its brokers' sockets, and that thread; ``stop`` ends them all.
"""

import itertools
import ssl
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from aiokafka_lite.testing.clock import Clock, SystemClock, VirtualClock
from aiokafka_lite.testing.control import Control, Fault, SeenRequest
from aiokafka_lite.testing.node import Node
from aiokafka_lite.testing.state import ClusterState
from aiokafka_lite.testing.topics import Partition, Topic

if TYPE_CHECKING:
    from aiokafka_lite.testing.context import ApiRanges
    from aiokafka_lite.testing.control import Condition, Replacement
    from aiokafka_lite.testing.server import BrokerServer
    from aiokafka_lite.testing.tampering import Tampering
    from aiokafka_lite.testing.thread import LoopThread

__all__ = ["FakeCluster"]

T = TypeVar("T")

LOOPBACK: Final = "127.0.0.1"


class FakeCluster:
    """Brokers on loopback that speak Kafka's protocol, and what tests want to do to them.

    Args:
        brokers: how many; their node ids count from 0.
        topics: topics to begin with and their partitions; or only names, with one partition each.
        version: offer what the brokers of this Kafka release offered ("2.8"); None for all that
            is served.
        api_versions: narrow or withdraw (None) single APIs: ``{ApiKey.FETCH: (4, 11)}``.
        default_partitions: partitions of a topic that is created without a number.
        auto_create_topics: create topics that metadata is asked for.
        check_records: decode every batch that is produced and refuse one whose records are not
            what its header says, as a real broker does; without, only headers and checksums are
            looked at, which is quicker.
        racks: the rack of each broker.
        seed: the same seed gives the same cluster id and topic ids.
        clock: the time that sessions, transactions and retention go by; with a
            ``VirtualClock`` they do only when ``advance`` is called.
        ssl_context: makes every listener a TLS one.
        host: address to listen on.

    Raises:
        ValueError: no broker, racks that do not match them, or an unknown release.
    """

    def __init__(
        self,
        brokers: int = 1,
        topics: Mapping[str, int] | Iterable[str] = (),
        *,
        version: str | None = None,
        api_versions: Mapping[int, tuple[int, int] | None] | None = None,
        default_partitions: int = 1,
        auto_create_topics: bool = True,
        check_records: bool = False,
        racks: Sequence[str | None] | None = None,
        seed: int = 0,
        clock: Clock | None = None,
        ssl_context: ssl.SSLContext | None = None,
        host: str = LOOPBACK,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: a cluster has at least one")
        if racks is not None and len(racks) != brokers:
            raise ValueError(f"{len(racks)} racks for {brokers} brokers")
        names = racks or [None] * brokers
        self.state = ClusterState(
            [Node(node_id, host, rack) for node_id, rack in enumerate(names)],
            clock=clock or SystemClock(),
            random=Random(seed),
            default_partitions=default_partitions,
            auto_create_topics=auto_create_topics,
            check_records=check_records,
        )
        self._control = Control()
        self._first_topics = topics if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        self._version = version
        self._api_versions = api_versions or {}
        self._ssl_context = ssl_context
        self._connection_ids = itertools.count()
        self._servers: dict[int, BrokerServer] = {}
        self._thread: LoopThread | None = None

    # Its life

    async def start(self) -> None:
        """Start every broker. Cancelling leaves none behind.

        Raises:
            RuntimeError: it was started before.
        """
        from aiokafka_lite.testing.apis import SERVED
        from aiokafka_lite.testing.exchange import Dispatcher
        from aiokafka_lite.testing.server import BrokerServer

        if self._servers:
            raise RuntimeError("a cluster is started once")
        offered = self._offered(SERVED)
        for node in self.state.nodes.values():
            dispatcher = Dispatcher(self.state, node.node_id, offered, self._control)
            self._servers[node.node_id] = BrokerServer(
                node, dispatcher, self._connection_ids.__next__, self._ssl_context
            )
        try:
            for node_id in self._servers:
                await self.restart(node_id)
        except BaseException:
            await self.stop()
            raise
        for name, partitions in self._first_topics.items():
            self.state.create_topic(name, partitions)

    async def stop(self) -> None:
        """Stop every broker and close every connection. May be called again."""
        for node_id in self._servers:
            self._kill(node_id)
        for server in self._servers.values():
            await server.stop()
        self.state.clock.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()
        self._raise_failures(error)

    def __enter__(self) -> Self:
        from aiokafka_lite.testing.thread import LoopThread

        self._thread = LoopThread("aiokafka_lite-testing")
        try:
            self._thread.run(self.start())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread is not None:
            self._thread.run(self.stop())
            self._thread.stop()
            self._thread = None
        self._raise_failures(error)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine of this cluster from code without an event loop.

        Raises:
            RuntimeError: the cluster has no thread of its own; await it instead.
        """
        if self._thread is None:
            coroutine.close()
            raise RuntimeError("run() belongs to `with FakeCluster(...)`; here, await instead")
        return self._thread.run(coroutine)

    # Where it is

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every broker, dead or alive, with commas between."""
        return ",".join(self.address(node_id) for node_id in self.state.nodes)

    def address(self, node_id: int) -> str:
        """``host:port`` of one broker; a broker keeps it when it is started again."""
        node = self.state.nodes[node_id]
        return f"{node.host}:{node.port}"

    @property
    def cluster_id(self) -> str:
        """As metadata tells it."""
        return self.state.cluster_id

    # Brokers

    def kill(self, node_id: int) -> None:
        """End a broker as SIGKILL does: connections are cut, its partitions get other leaders.

        Partitions that have no other replica in sync have no leader until it is back.
        """
        self._in_loop(lambda: self._kill(node_id))

    async def restart(self, node_id: int) -> None:
        """Start a killed broker again, on its old port and with its old log.

        Raises:
            OSError: the port was taken in the meantime.
        """
        if not self.state.nodes[node_id].alive:
            await self._servers[node_id].start()
            self.state.on_node_up(node_id)

    def disconnect(self, node_id: int | None = None) -> None:
        """Cut the connections of one broker or of all; it goes on listening."""

        def cut() -> None:
            for server in self._servers.values():
                if node_id is None or server.node.node_id == node_id:
                    server.cut_connections()

        self._in_loop(cut)

    # Time

    def advance(self, seconds: float) -> None:
        """Move the cluster's ``VirtualClock`` on, and let happen what falls due on the way.

        Raises:
            RuntimeError: the cluster goes by the machine's clock.
            ValueError: time does not run backwards.
        """
        clock = self.state.clock
        if not isinstance(clock, VirtualClock):
            raise RuntimeError("advance() needs FakeCluster(clock=VirtualClock())")
        self._in_loop(lambda: clock.advance(seconds))

    # Topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
    ) -> Topic:
        """Create a topic at once, known to every broker.

        Args:
            name: its name.
            partitions: how many; partition ``i`` is led by broker ``i`` modulo the brokers.
            replication_factor: replicas of each; -1 for three, or as many brokers as there are.
            configs: topic configurations by Kafka's names (``message.timestamp.type``, ...).

        Raises:
            BrokerResponseError: what a client would be answered.
        """
        return self._in_loop(
            lambda: self.state.create_topic(name, partitions, replication_factor, configs=configs)
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic; created again it has another id."""
        self._in_loop(lambda: self.state.delete_topic(name))

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic grow to ``total`` partitions."""
        self._in_loop(lambda: self.state.add_partitions(name, total))

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make another broker the leader of a partition, in a new leader epoch.

        It becomes a replica if it was none. Fetches that wait are answered with an error.
        """

        def move() -> None:
            moved = self.partition(topic, partition)
            if node_id not in self.state.nodes:
                raise ValueError(f"there is no broker {node_id}")
            for nodes in (moved.replicas, moved.isr):
                if node_id not in nodes:
                    nodes.append(node_id)
            moved.lead(node_id)

        self._in_loop(move)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Move the log start of a partition to offset ``before``."""
        self._in_loop(lambda: self.partition(topic, partition).log.delete_before(before))

    def partition(self, topic: str, partition: int) -> Partition:
        """The state of a partition, to look at: its log, its leader, its epoch."""
        return self.state.topics[topic].partitions[partition]

    # Faults

    @property
    def failures(self) -> list[Exception]:
        """What went wrong inside the brokers, or in a function given to a fault.

        Each ended its connection; the end of ``with`` and ``async with`` raises them together.
        """
        return [failure for server in self._servers.values() for failure in server.failures]

    @property
    def requests(self) -> Sequence[SeenRequest]:
        """The newest requests that the brokers received, oldest first (10,000 at most)."""
        return self._in_loop(lambda: list(self._control.requests))

    def count(self, api_key: int) -> int:
        """How many requests of an API were received in all."""
        return self._control.counts[api_key]

    def control(
        self,
        api_key: int | None = None,
        *,
        times: int | None = 1,
        node: int | None = None,
        when: "Condition | None" = None,
        after_handling: bool = False,
        delay: float = 0.0,
        error: int = 0,
        partitions: Iterable[tuple[str, int | None]] | None = None,
        respond_with: "Replacement | None" = None,
        edit: Callable[[Any], None] | None = None,
        tamper: "Tampering | None" = None,
        drop: bool = False,
        disconnect: bool | int = False,
    ) -> Fault:
        """Let something go wrong with the next requests of an API.

        Args:
            api_key: which API; None for any.
            times: how many requests are struck; None for all until ``Fault.remove``.
            node: only requests to this broker.
            when: only requests that it says True to; it gets the decoded request.
            after_handling: let the broker do what is asked first, and then strike its answer;
                without, nothing has happened when the fault strikes.
            delay: seconds to wait before anything below, or before the request is handled.
            error: an error code for every partition or topic of the request, or for the whole of
                it where there are none; what it hits is not done. After handling, every error
                code of the response is overwritten.
            partitions: only these (topic, partition) get the ``error``; partition None stands for
                the topic itself, in metadata and topic requests.
            respond_with: a response to send instead of the broker's, or a function that makes it
                from the request.
            edit: a function that changes the response before it is encoded.
            tamper: a function that changes the encoded response; see ``testing.tampering``.
            drop: never answer, but stay connected; the connection is mute from then on.
            disconnect: cut the connection: True instead of an answer, a number after so many
                bytes of it.

        Returns:
            The fault: ``hits``, ``await struck()``, ``remove()``.
        """
        fault = Fault(
            api_key,
            times=times,
            node=node,
            when=when,
            after_handling=after_handling,
            delay=delay,
            error=error,
            partitions=partitions,
            respond_with=respond_with,
            edit=edit,
            tamper=tamper,
            drop=drop,
            disconnect=disconnect,
        )
        self._in_loop(lambda: self._control.faults.append(fault))
        return fault

    # Inside

    def _kill(self, node_id: int) -> None:
        if self.state.nodes[node_id].alive:
            self.state.on_node_down(node_id)
            self._servers[node_id].kill()

    def _offered(self, served: "ApiRanges") -> "ApiRanges":
        """The versions to offer: those served, as far as release and caller leave them."""
        limits: dict[int, tuple[int, int] | None] = {}
        if self._version is not None:
            from aiokafka_lite.protocol.versions import versions_of

            released = versions_of(self._version)
            limits = {key: released.range_of(key) for key in served}
        limits.update(self._api_versions)
        offered = {}
        for key, (first, last) in served.items():
            limit = limits.get(key, (first, last))
            if limit is not None and max(first, limit[0]) <= min(last, limit[1]):
                offered[key] = (max(first, limit[0]), min(last, limit[1]))
        return offered

    def _raise_failures(self, error: BaseException | None) -> None:
        """At the end of a ``with`` that saw no error: what failed inside the brokers."""
        failures = self.failures
        if failures and error is None:
            raise ExceptionGroup("a broker, or a function given to a fault, failed", failures)

    def _in_loop(self, function: Callable[[], T]) -> T:
        """Change or read state where nothing else does at the same time."""
        return function() if self._thread is None else self._thread.call(function)
