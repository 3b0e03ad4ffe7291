"""`FakeCluster`: an in-process Kafka for tests and tutorials.

    async with FakeCluster(topics={"orders": 6}) as cluster:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

All state is in memory unless `data_dir` is set. With `with` instead of `async with`, the cluster
runs in its own thread: for tests without an event loop, and for tests whose loop is not asyncio's.
Either way, its methods may be called from any thread and any loop.

`FakeCluster` starts and stops the cluster and its brokers. The rest of its interface is in
`face.mutations` (cluster state), `face.inspection` (records) and `face.fault_control` (single
requests). It owns its brokers' sockets and its thread; `stop` closes them all.
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
    from aiokafka_lite.testing.security.acl_table import AclTable
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
    """A cluster of in-process brokers on loopback, with control over their state and faults.

    Args:
        brokers: Number of brokers; node ids count from 0.
        topics: Initial topics with their partition counts; or only names, for one partition each.
        version: The Kafka release ("2.8") whose API versions the brokers offer; None offers every
            implemented version.
        api_versions: Narrows or withdraws (None) single APIs: `{ApiKey.FETCH: (4, 11)}`.
        default_partitions: Partition count of a topic created without one.
        auto_create_topics: Create unknown topics on Metadata requests that allow it.
        check_records: Decode every produced batch and reject one whose records contradict its
            header, as a real broker does. False checks only headers and checksums, which is
            faster.
        racks: The rack of each broker.
        replica_selector: "rack_aware" directs consumers that send a rack to a follower in that
            rack (KIP-392); None makes every consumer read from the leader.
        seed: The same seed gives the same cluster id and topic ids.
        clock: The clock of sessions, transactions and retention; a `VirtualClock` moves only
            when `advance` is called.
        ssl_context: Makes every listener use TLS.
        users: User names and passwords; requires clients to authenticate with SASL. With a
            `data_dir`, they are added to the stored users.
        sasl_mechanisms: The SASL mechanisms offered; by default PLAIN and both SCRAM mechanisms.
            OAUTHBEARER accepts unsigned tokens, GSSAPI a stand-in for Kerberos, and AWS_MSK_IAM
            signatures by users that are access keys, with their secret as password.
        sasl_session_lifetime: Seconds after which a client must re-authenticate.
        super_users: Principals ("User:admin") that may do everything; other principals may do
            only what `acls` allow.
        authorizer: Makes authorization decisions in place of the ACL table of `super_users`; True
            for that table without a super user.
        host: Address to listen on.
        port: Port of the first broker; the others listen on the ports after it. 0 picks free
            ports.
        advertise: The host that the brokers advertise to clients; by default `host`.
        data_dir: A folder that stores topics, records, offsets and all other state, for a later
            cluster to start from; None keeps everything in memory.
        fsync: With `data_dir`, sync to disk before acknowledging anything.
        features: Finalized feature levels that differ from those of a new cluster:
            `{"group.version": 0}`.
        collect_metrics: Ask clients for the metrics of the subscriptions (KIP-714) that the test
            creates by `alter_configs`, as a real broker with a plugin does. `pushed_metrics`
            returns them.
        broker_configs: Static broker configurations by Kafka's names:
            `{"transaction.max.timeout.ms": 60_000}`.

    Raises:
        ValueError: There are no brokers, `racks` does not match `brokers`, or a release, replica
            selector, feature or configuration is unknown.
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
        collect_metrics: bool = False,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: must be at least 1")
        if racks is not None and len(racks) != brokers:
            raise ValueError(f"racks has {len(racks)} items for {brokers} brokers")
        if replica_selector is not None:
            selector = REPLICA_SELECTORS.get(replica_selector)
            if selector is None:
                raise ValueError(f"replica_selector={replica_selector!r}: must be 'rack_aware'")
            broker_configs = {"replica.selector.class": selector, **(broker_configs or {})}
        if not 0 <= port <= LAST_PORT - brokers + 1:
            raise ValueError(f"port={port}: {brokers} ports from there on exceed 65535")
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
                random=Random(f"{seed} {run}" if run else seed),  # ids never repeat in a folder
                default_partitions=default_partitions,
                auto_create_topics=auto_create_topics,
                check_records=check_records,
                storage=self._storage,
                version=version,
                features=features,
                broker_configs=broker_configs,
            )
            if users is None and (sasl_mechanisms or sasl_session_lifetime):
                raise ValueError("SASL options require users (an empty dict to add users later)")
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
        self._collect_metrics = collect_metrics
        self._api_versions = api_versions or {}
        self._ssl_context = ssl_context
        self._connection_ids = itertools.count()
        self._servers: dict[int, BrokerServer] = {}
        self._failures_raised: list[Exception] = []
        self._thread: LoopThread | None = None  # set by `with`
        self._loop: asyncio.AbstractEventLoop | None = None  # while running
        self._loop_thread = -1
        self._stops = False  # nothing starts after this

    # Start and stop

    async def start(self) -> None:
        """Start every broker. Cancellation stops the ones already started.

        Raises:
            RuntimeError: The cluster was started before.
            BrokerResponseError: Kafka rejects one of the initial topics.
            OSError: A requested port is in use.
        """
        from aiokafka_lite.testing.apis import SERVED, WITH_A_PLUGIN
        from aiokafka_lite.testing.release_profile import offered
        from aiokafka_lite.testing.server.broker_server import BrokerServer
        from aiokafka_lite.testing.server.request_exchange import Dispatcher

        if self._servers:
            raise RuntimeError("a cluster can be started only once")
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self.state.clock.begin()
        served = {**SERVED, **WITH_A_PLUGIN} if self._collect_metrics else SERVED
        offers = offered(served, self._version, self._api_versions)
        for node in self.state.nodes.values():
            dispatcher = Dispatcher(self.state, node.node_id, offers, self._control)
            self._servers[node.node_id] = BrokerServer(
                node, dispatcher, self._connection_ids.__next__, self._ssl_context
            )
        try:
            for node_id in self._servers:
                await self._restart(node_id)
            for name, partitions in self._first_topics.items():
                if name not in self.state.topics:  # the data folder may hold it
                    self.state.create_topic(name, partitions)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop every broker and close every connection. Idempotent."""
        self._stops = True
        try:
            try:
                for node_id in self._servers:
                    self._kill(node_id)
            finally:  # even if the folder's disk is full
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

    # Addresses

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, running or killed, separated by commas."""
        return ",".join(self.address(node_id) for node_id in self.state.nodes)

    def address(self, node_id: int) -> str:
        """Return the `host:port` of one broker; it stays the same across restarts."""
        node = self._node(node_id)
        host = f"[{node.host}]" if ":" in node.host else node.host
        return f"{host}:{node.port}"

    @property
    def cluster_id(self) -> str:
        """The cluster id, as Metadata returns it."""
        return self.state.cluster_id

    # Brokers

    def kill(self, node_id: int) -> None:
        """Kill a broker as SIGKILL does: its connections break and its partitions change leaders.

        A partition without another in-sync replica has no leader until the broker restarts.
        """
        self._server(node_id)
        self._in_loop(lambda: self._kill(node_id))

    def restart(self, node_id: int) -> Awaitable[None]:
        """Restart a killed broker on its old port, with its old log.

        In the cluster's own event loop, await the result. From any other thread or loop, the
        broker has restarted when this returns; awaiting the result is allowed but unnecessary.

        Raises:
            OSError: The port is now in use.
            RuntimeError: The cluster is not running.
        """
        self._server(node_id)
        loop = self._elsewhere()
        if loop is None:
            return self._restart(node_id)
        run_in(loop, self._restart(node_id))
        return DONE

    def pause(self, node_id: int) -> None:
        """Suspend a broker as SIGSTOP does: it stays reachable but silent until `resume`.

        Connections stay open and new ones appear to be accepted; nothing is read or answered.
        """
        server = self._server(node_id)
        self._in_loop(server.pause)

    def resume(self, node_id: int) -> None:
        """Resume a paused broker. Does nothing if the broker is not paused."""
        server = self._server(node_id)
        self._in_loop(server.resume)

    def disconnect(self, node_id: int | None = None) -> None:
        """Break the connections of one broker, or of all brokers; they keep listening."""
        if node_id is not None:
            self._node(node_id)

        def cut() -> None:
            for server in self._servers.values():
                if node_id is None or server.node.node_id == node_id:
                    server.cut_connections()

        self._in_loop(cut)

    @property
    def acls(self) -> "AclTable":
        """The ACLs of the cluster; may be changed at any time.

        Raises:
            RuntimeError: There are no ACLs, because neither `super_users` nor `authorizer` was
                given.
        """
        if self.state.authorizer is None:
            raise RuntimeError("acls requires FakeCluster(super_users=...) or an authorizer")
        return self.state.authorizer.acls

    @property
    def failures(self) -> list[Exception]:
        """Exceptions raised inside the brokers, or by a function given to a fault.

        Each closed its connection. The end of `with` or `async with` raises them together.
        """
        of_servers = [error for server in self._servers.values() for error in server.failures]
        return of_servers + self.state.clock.failures

    def raise_failures(self) -> None:
        """Raise the `failures` that were not raised before.

        Raises:
            ExceptionGroup: There are such failures; the group contains them all.
        """
        news = [failure for failure in self.failures if failure not in self._failures_raised]
        self._failures_raised += news
        if news:
            raise ExceptionGroup("a broker, or a function given to a fault, failed", news)

    # Internals

    def _server(self, node_id: int) -> "BrokerServer":
        self._node(node_id)
        if self._loop is None:
            raise RuntimeError("the cluster is not running")
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
        from aiokafka_lite.testing.security.acl_table import AclTable
        from aiokafka_lite.testing.security.authorizer import Authorizer

        if isinstance(authorizer, Authorizer):
            if super_users is not None:
                raise ValueError("pass super_users to the authorizer, not to FakeCluster")
            self.state.authorizer = authorizer
        elif authorizer is None or isinstance(authorizer, bool):
            self.state.authorizer = Authorizer(super_users or (), acls=AclTable(self.state.journal))
        else:
            raise TypeError(f"authorizer={authorizer!r}: must be an Authorizer or True")

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
        """Return the cluster's event loop, or None if the caller runs in the same thread."""
        return None if threading.get_ident() == self._loop_thread else self._loop


def _opened(data_dir: str | os.PathLike[str], fsync: bool) -> "Storage":
    try:
        from aiokafka_lite.testing.data_folder import Storage  # rarely used: import late
    except ModuleNotFoundError as error:
        if error.name != "fcntl":
            raise
        raise ValueError(
            "data_dir needs file locks that Windows does not have: leave it out, or use WSL"
        ) from error
    return Storage(data_dir, fsync=fsync)
