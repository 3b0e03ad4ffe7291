"""`FakeCluster`: a Kafka in the process, for tests and first steps.

    async with FakeCluster(topics={"orders": 6}) as cluster:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

Everything lies in memory and is gone with it. With `with` instead of `async with` the cluster
runs in a thread of its own: for tests without an event loop, and for those whose loop is not
asyncio's. Its methods may be called from any thread either way, and from any loop.

The class is the life of the cluster and of its brokers; what else can be done to it is in
`levers` (its state), `views` (its records) and `faults` (single requests). It owns its
brokers' sockets, and that thread; `stop` ends them all.
"""

import asyncio
import itertools
import os
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from aiokafka_lite.testing.clock import Clock, SystemClock
from aiokafka_lite.testing.control import Control
from aiokafka_lite.testing.face.fault_control import Faults
from aiokafka_lite.testing.face.inspection import Views
from aiokafka_lite.testing.face.mutations import Levers
from aiokafka_lite.testing.node import Node
from aiokafka_lite.testing.server.loop_thread import DONE, LoopThread, call_in, run_in
from aiokafka_lite.testing.state import ClusterState

if TYPE_CHECKING:
    from aiokafka_lite.testing.data_folder import Storage
    from aiokafka_lite.testing.security.acls import AclTable
    from aiokafka_lite.testing.security.authorizer import Authorizer
    from aiokafka_lite.testing.server.broker_server import BrokerServer

__all__ = ["FakeCluster"]

T = TypeVar("T")

LOOPBACK: Final = "127.0.0.1"
LAST_PORT: Final = 65535
REPLICA_SELECTORS: Final = {
    "rack_aware": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


class FakeCluster(Levers, Views, Faults):
    """Brokers on loopback that speak Kafka's protocol, and what tests want to do to them.

    Args:
        brokers: How many; their node ids count from 0.
        topics: Topics to begin with and their partitions; or only names, with one partition each.
        version: Offer what the brokers of this Kafka release offered ("2.8"); None for all that
            is served.
        api_versions: Narrow or withdraw (None) single APIs: `{ApiKey.FETCH: (4, 11)}`.
        default_partitions: Partitions of a topic that is created without a number.
        auto_create_topics: Create topics that metadata is asked for.
        check_records: Decode every batch that is produced and refuse one whose records are not
            what its header says, as a real broker does; without, only headers and checksums are
            looked at, which is quicker.
        racks: The rack of each broker.
        replica_selector: "rack_aware" sends consumers that tell their rack to a follower there
            (KIP-392); None lets all read from the leader.
        seed: The same seed gives the same cluster id and topic ids.
        clock: The time that sessions, transactions and retention go by; with a
            `VirtualClock` they do only when `advance` is called.
        ssl_context: Makes every listener a TLS one.
        users: Names and passwords: clients have to authenticate by SASL. With a `data_dir` they
            are added to those that are kept.
        sasl_mechanisms: Those offered then; by default PLAIN and both of SCRAM.
        sasl_session_lifetime: Seconds after which a client has to authenticate again.
        super_users: Principals ("User:admin") that may do everything; nobody else may do anything
            but what `acls` allow.
        authorizer: Decides who may do what, in place of the table that `super_users` begins;
            True for that table without a super user.
        host: Address to listen on.
        port: Where the first broker listens, and the others on the ports after it; 0 for any
            that are free.
        advertise: The host that clients are told to connect to; by default `host`.
        data_dir: A folder to keep topics, records, offsets and all the rest in, so that another
            cluster can be started on it later; without, everything lies in memory.
        fsync: With `data_dir`, write through to the disk before anything is acknowledged.
        features: Finalized feature levels that differ from a fresh cluster's:
            `{"group.version": 0}`.
        broker_configs: What the brokers are started with, by Kafka's names:
            `{"transaction.max.timeout.ms": 60_000}`.

    Raises:
        ValueError: No broker, racks that do not match them, an unknown release, replica selector,
            feature or configuration.
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
        replica_selector: str | None = None,
        seed: int = 0,
        clock: Clock | None = None,
        ssl_context: ssl.SSLContext | None = None,
        users: Mapping[str, str] | None = None,
        sasl_mechanisms: Sequence[str] | None = None,
        sasl_session_lifetime: float | None = None,
        super_users: Iterable[str] | None = None,
        authorizer: "Authorizer | bool | None" = None,
        host: str = LOOPBACK,
        port: int = 0,
        advertise: str | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        fsync: bool = False,
        features: Mapping[str, int] | None = None,
        broker_configs: Mapping[str, object] | None = None,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: a cluster has at least one")
        if racks is not None and len(racks) != brokers:
            raise ValueError(f"{len(racks)} racks for {brokers} brokers")
        if replica_selector is not None:
            selector = REPLICA_SELECTORS.get(replica_selector)
            if selector is None:
                raise ValueError(f"replica_selector={replica_selector!r} is not 'rack_aware'")
            broker_configs = {"replica.selector.class": selector, **(broker_configs or {})}
        if not 0 <= port <= LAST_PORT - brokers + 1:
            raise ValueError(f"port={port}: {brokers} ports from there on are not to be had")
        names = racks or [None] * brokers
        nodes = [
            Node(
                node_id,
                advertise or host,
                rack,
                port=port + node_id if port else 0,
                listens_on=host,
            )
            for node_id, rack in enumerate(names)
        ]
        self._storage = None if data_dir is None else _opened(data_dir, fsync)
        run = self._storage.run if self._storage else 0
        try:
            self.state = ClusterState(
                nodes,
                clock=clock or SystemClock(),
                random=Random(f"{seed} {run}" if run else seed),  # no id comes twice in a folder
                default_partitions=default_partitions,
                auto_create_topics=auto_create_topics,
                check_records=check_records,
                storage=self._storage,
                version=version,
                features=features,
                broker_configs=broker_configs,
            )
            if users is None and (sasl_mechanisms or sasl_session_lifetime):
                raise ValueError("nobody could authenticate: give users, too, be it an empty dict")
            if users is not None:
                self._admit_only(users, sasl_mechanisms, sasl_session_lifetime)
            if authorizer or super_users is not None:
                self._authorize_by(authorizer, super_users)
        except BaseException:
            self._close_storage()
            raise
        self._control = Control()
        self._first_topics = topics if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        self._version = version
        self._api_versions = api_versions or {}
        self._ssl_context = ssl_context
        self._connection_ids = itertools.count()
        self._servers: dict[int, BrokerServer] = {}
        self._failures_raised: list[Exception] = []
        self._thread: LoopThread | None = None  # where `with` keeps it
        self._loop: asyncio.AbstractEventLoop | None = None  # while it runs
        self._loop_thread = -1
        self._stops = False  # from then on nothing is started any more

    # Its life

    async def start(self) -> None:
        """Start every broker. Cancelling leaves none behind.

        Raises:
            RuntimeError: It was started before.
            BrokerResponseError: A topic to begin with that Kafka does not take.
            OSError: A port that was asked for is taken.
        """
        from aiokafka_lite.testing.apis import SERVED
        from aiokafka_lite.testing.release_profile import offered
        from aiokafka_lite.testing.server.broker_server import BrokerServer
        from aiokafka_lite.testing.server.request_exchange import Dispatcher

        if self._servers:
            raise RuntimeError("a cluster is started once")
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self.state.clock.begin()
        offers = offered(SERVED, self._version, self._api_versions)
        for node in self.state.nodes.values():
            dispatcher = Dispatcher(self.state, node.node_id, offers, self._control)
            self._servers[node.node_id] = BrokerServer(
                node, dispatcher, self._connection_ids.__next__, self._ssl_context
            )
        try:
            for node_id in self._servers:
                await self._restart(node_id)
            for name, partitions in self._first_topics.items():
                if name not in self.state.topics:  # it may be in the data folder
                    self.state.create_topic(name, partitions)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop every broker and close every connection. May be called again."""
        self._stops = True
        try:
            try:
                for node_id in self._servers:
                    self._kill(node_id)
            finally:  # even if its folder's disk is full
                for server in self._servers.values():
                    await server.stop()
        finally:
            self.state.clock.close()
            self._close_storage()
            self._loop = None

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
        if error is None:
            self.raise_failures()

    def __enter__(self) -> Self:
        thread = LoopThread("aiokafka_lite-testing")
        try:
            thread.run(self.start())
        except BaseException:
            thread.stop()
            raise
        self._thread = thread
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.run(self.stop())
            finally:
                thread.stop()
        if error is None:
            self.raise_failures()

    # Where it is

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, dead or alive, with commas between."""
        return ",".join(self.address(node_id) for node_id in self.state.nodes)

    def address(self, node_id: int) -> str:
        """`host:port` of one broker; a broker keeps it when it is started again."""
        node = self._node(node_id)
        host = f"[{node.host}]" if ":" in node.host else node.host
        return f"{host}:{node.port}"

    @property
    def cluster_id(self) -> str:
        """As metadata tells it."""
        return self.state.cluster_id

    # Brokers

    def kill(self, node_id: int) -> None:
        """End a broker as SIGKILL does: connections are cut, its partitions get other leaders.

        Partitions that have no other replica in sync have no leader until it is back.
        """
        self._server(node_id)
        self._in_loop(lambda: self._kill(node_id))

    def restart(self, node_id: int) -> Awaitable[None]:
        """Start a killed broker again, on its old port and with its old log.

        In the loop that the cluster runs in, `await` it. Called from anywhere else it is done
        when this returns; awaiting what is returned is allowed then, and not needed.

        Raises:
            OSError: The port was taken in the meantime.
            RuntimeError: The cluster was not started, or is stopped.
        """
        self._server(node_id)
        loop = self._elsewhere()
        if loop is None:
            return self._restart(node_id)
        run_in(loop, self._restart(node_id))
        return DONE

    def pause(self, node_id: int) -> None:
        """Stop a broker as SIGSTOP does: it is there, and says nothing until `resume`.

        Connections stay open and new ones seem to be accepted; nothing is read or answered.
        """
        server = self._server(node_id)
        self._in_loop(server.pause)

    def resume(self, node_id: int) -> None:
        """Let a paused broker go on where it was. Nothing happens if it is not paused."""
        server = self._server(node_id)
        self._in_loop(server.resume)

    def disconnect(self, node_id: int | None = None) -> None:
        """Cut the connections of one broker or of all; it goes on listening."""
        if node_id is not None:
            self._node(node_id)

        def cut() -> None:
            for server in self._servers.values():
                if node_id is None or server.node.node_id == node_id:
                    server.cut_connections()

        self._in_loop(cut)

    @property
    def acls(self) -> "AclTable":
        """Who may do what, to be changed at any time.

        Raises:
            RuntimeError: Everything is allowed, because neither `super_users` nor an
                `authorizer` was given.
        """
        if self.state.authorizer is None:
            raise RuntimeError("acls need FakeCluster(super_users=...) or an authorizer")
        return self.state.authorizer.acls

    @property
    def failures(self) -> list[Exception]:
        """What went wrong inside the brokers, or in a function given to a fault.

        Each ended its connection; the end of `with` and `async with` raises them together.
        """
        of_servers = [error for server in self._servers.values() for error in server.failures]
        return of_servers + self.state.clock.failures

    def raise_failures(self) -> None:
        """Raise those of the `failures` that were not raised before.

        Raises:
            ExceptionGroup: Of all of them.
        """
        news = [failure for failure in self.failures if failure not in self._failures_raised]
        self._failures_raised += news
        if news:
            raise ExceptionGroup("a broker, or a function given to a fault, failed", news)

    # Inside

    def _server(self, node_id: int) -> "BrokerServer":
        self._node(node_id)
        if self._loop is None:
            raise RuntimeError("the cluster is not started, or is stopped")
        return self._servers[node_id]

    def _kill(self, node_id: int) -> None:
        if self.state.nodes[node_id].alive:
            try:
                self.state.on_node_down(node_id)
            finally:
                self._servers[node_id].kill()

    def _admit_only(
        self, users: Mapping[str, str], mechanisms: Sequence[str] | None, lifetime: float | None
    ) -> None:
        from aiokafka_lite.testing.security.authentication import Sasl
        from aiokafka_lite.testing.security.users import MECHANISMS

        for name, password in users.items():
            self.state.users.put(name, password)
        self.state.sasl = Sasl(
            self.state.users,
            MECHANISMS if mechanisms is None else mechanisms,
            clock=self.state.clock,
            new_nonce=lambda: self.state.new_uuid().hex,
            session_lifetime=lifetime,
        )

    def _authorize_by(
        self, authorizer: "Authorizer | bool | None", super_users: Iterable[str] | None
    ) -> None:
        from aiokafka_lite.testing.security.acls import AclTable
        from aiokafka_lite.testing.security.authorizer import Authorizer

        if isinstance(authorizer, Authorizer):
            if super_users is not None:
                raise ValueError("super_users are the authorizer's own: give them to it")
            self.state.authorizer = authorizer
        elif authorizer is None or isinstance(authorizer, bool):
            self.state.authorizer = Authorizer(super_users or (), acls=AclTable(self.state.journal))
        else:
            raise TypeError(f"authorizer={authorizer!r} is neither an Authorizer nor True")

    def _close_storage(self) -> None:
        if self._storage is not None:
            self._storage.close()

    async def _restart(self, node_id: int) -> None:
        if self._stops:
            raise RuntimeError("the cluster is stopped")
        if not self.state.nodes[node_id].alive:
            try:
                await self._servers[node_id].start()
            except OSError as error:
                node = self.state.nodes[node_id]
                where = f"{node.listens_on}:{node.port}"
                why = error.strerror or str(error)
                raise OSError(
                    error.errno, f"broker {node_id} cannot listen on {where}: {why}"
                ) from error
            self.state.on_node_up(node_id)

    def _in_loop(self, function: Callable[[], T]) -> T:
        loop = self._elsewhere()
        return function() if loop is None else call_in(loop, function)

    def _elsewhere(self) -> asyncio.AbstractEventLoop | None:
        """The loop that the cluster runs in, if that is in another thread than the caller."""
        return None if threading.get_ident() == self._loop_thread else self._loop


def _opened(data_dir: str | os.PathLike[str], fsync: bool) -> "Storage":
    from aiokafka_lite.testing.data_folder import Storage  # few keep anything: import late

    return Storage(data_dir, fsync=fsync)
