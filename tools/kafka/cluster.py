"""A real Kafka cluster on loopback, started from jars and removed completely afterwards."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.kafka import config, jars, java, jvm, process, storage, wire
from tools.kafka.broker import (
    START_TIMEOUT,
    Broker,
    BrokerFailed,
    PortTaken,
    ZooKeeper,
    free_ports,
)
from tools.kafka.config import Node
from tools.kafka.releases import NEWEST, Release, release
from tools.kafka.security import Security
from tools.kafka.topics import await_topic, settings

_TRIES = 3  # another process may take a port before the broker binds it
_ZOOKEEPER_MEMORY = 20.0  # seconds; well above the session timeout of config.py


class KafkaCluster:
    """Brokers of one release, as a context manager.

    KRaft with combined controllers from 3.3 on, one ZooKeeper and the brokers before. Node ids
    count from 0. Everything listens on 127.0.0.1 only.

    Args:
        version: Kafka's release, such as `"4.4.0"` or `"0.8.2.2"`.
        nodes: How many brokers.
        config: Broker settings that override the harness's; None removes one.
        port: Port of the first broker; None: any free port.
        security: TLS and SASL listeners in addition to the plain one (KRaft releases only).
        heap: Maximum heap of each broker, as for `-Xmx`.
        advertised_ports: Port advertised for each node's plain listener, such as a proxy's (KRaft
            releases only); None: the actual port. Brokers still connect to each other directly.
        quick: Optimize for startup time, not speed: for tests, not for measurements.
        plugins: Folders of class files that the brokers load, such as metrics reporters.
        jvm_options: Added to the harness's options for brokers, which then do not use the class
            archive.
        peer_ports: Ports of each node's internal listener and of its controller, if the nodes are
            to reach each other through proxies: node a connects to node b at
            `config.peer_address(a, b)`, where the caller listens on both ports of b. Needs
            `advertised_ports`.
        environments: Environment variables added for each node.
        more_data: Further folders for logs by node, such as small disks, which have to be empty.

    Raises:
        KafkaNotAvailable: On entry: Java, Maven or the jars are not available.
        BrokerFailed: On entry: a broker does not start; the message has its last output.
        ValueError: For a release the harness does not know.
    """

    def __init__(
        self,
        version: str = NEWEST,
        nodes: int = 1,
        config: Mapping[str, object] | None = None,
        *,
        port: int | None = None,
        security: Security | None = None,
        heap: str = "400m",
        advertised_ports: Sequence[int] | None = None,
        quick: bool = True,
        plugins: Sequence[Path] = (),
        jvm_options: Sequence[str] = (),
        peer_ports: Sequence[tuple[int, int]] | None = None,
        environments: Sequence[Mapping[str, str]] | None = None,
        more_data: Mapping[int, Path] | None = None,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster has at least one node, not {nodes}")
        self._release: Release = release(version)
        if security is not None and not self._release.kraft:
            raise ValueError(f"the harness offers no TLS or SASL on Kafka {version}")
        if advertised_ports is not None:
            if len(advertised_ports) != nodes:
                raise ValueError(f"{len(advertised_ports)} advertised ports for {nodes} nodes")
            if not self._release.kraft:
                raise ValueError(f"the harness advertises no other ports on Kafka {version}")
        if peer_ports is not None and advertised_ports is None:
            raise ValueError("peer_ports needs advertised_ports: no internal listener otherwise")
        self._advertised = advertised_ports
        self._peer_ports = peer_ports
        self._environments = environments
        self._more_data = dict(more_data or {})
        self._count = nodes
        self._config = dict(config or {})
        self._port = port
        self.security = security
        self._heap = heap
        self._quick = quick
        self._plugins = list(plugins)
        self._jvm_options = list(jvm_options)
        self._secured: dict[str, object] = {}
        self._folder: Path | None = None
        self._brokers: dict[int, Broker] = {}
        self._zookeeper: ZooKeeper | None = None

    # -- lifecycle

    def __enter__(self) -> Self:
        jars.resolve(self.version)
        for attempt in range(1, _TRIES + 1):
            self._lay_out()
            try:
                self._launch_all()
                self.wait_ready()
            except PortTaken:
                self._end(keep_logs=False)
                if attempt == _TRIES or self._port is not None:
                    raise
            except BaseException:
                self._end(keep_logs=True)
                raise
            else:
                break
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(keep_logs=error is not None)

    def close(self) -> None:
        """End every process and remove all data."""
        self._end(keep_logs=False)

    def wait_ready(self, timeout: float = START_TIMEOUT) -> None:
        """Wait until every broker that was started answers and lists all the others.

        Raises:
            BrokerFailed: A broker ends, or the timeout expires.
        """
        deadline = time.monotonic() + timeout
        launched = {node_id for node_id, broker in self._brokers.items() if broker.running}
        for broker in self._brokers.values():
            if broker.node.node_id in launched:
                self._await_members(broker, launched, deadline - time.monotonic())

    # -- properties

    @property
    def version(self) -> str:
        """Kafka's release."""
        return self._release.version

    @property
    def release(self) -> Release:
        """Kafka's release, as the harness describes it."""
        return self._release

    @property
    def folder(self) -> Path:
        """Holds configuration, logs and data of every node while the cluster is up."""
        if self._folder is None:
            raise BrokerFailed("the cluster is not up")
        return self._folder

    @property
    def node_ids(self) -> list[int]:
        """The ids of all nodes, running or not."""
        return sorted(self._brokers)

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of the plain listeners of all nodes: `"127.0.0.1:1234,127.0.0.1:1235"`."""
        return self.bootstrap_of("PLAINTEXT")

    def bootstrap_of(self, listener: str) -> str:
        """The addresses of a listener (`"SSL"`, `"SASL_SSL"`, ...) of all nodes."""
        ports = [self._brokers[node_id].node.ports[listener] for node_id in self.node_ids]
        host = "127.0.0.1"
        if self.security is not None and listener in self.security.listeners:
            host = self.security.host
        return ",".join(f"{host}:{port}" for port in ports)

    def address(self, node_id: int) -> tuple[str, int]:
        """(host, port) of one node's plain listener."""
        return self._brokers[node_id].address

    def log(self, node_id: int) -> str:
        """The log output of one node so far."""
        return self._brokers[node_id].log.read_text(errors="replace")

    def running(self, node_id: int) -> bool:
        """True while that node's process exists, paused or not."""
        return self._brokers[node_id].running

    def zookeeper(self) -> str:
        """`host:port` of ZooKeeper.

        Raises:
            BrokerFailed: On a KRaft cluster.
        """
        if self._zookeeper is None:
            raise BrokerFailed(f"Kafka {self.version} runs without ZooKeeper here")
        return f"127.0.0.1:{self._zookeeper_port}"

    # -- failures

    def kill(self, node_id: int) -> None:
        """Send SIGKILL to one node and wait until it has ended."""
        self._brokers[node_id].kill()

    def stop(self, node_id: int) -> None:
        """Send SIGTERM to one node and wait until it has shut down cleanly."""
        self._brokers[node_id].stop()

    def start(self, node_id: int) -> None:
        """Start a killed or stopped node with its old port and data; wait until it answers.

        Raises:
            BrokerFailed: It is already running, or does not start.
        """
        broker = self._brokers[node_id]
        remembered_until = time.monotonic() + _ZOOKEEPER_MEMORY
        while True:
            broker.launch()
            try:
                # The other brokers may still list its earlier process: only its own view counts.
                self._await_members(broker, {node_id}, START_TIMEOUT)
            except BrokerFailed:
                # ZooKeeper keeps a killed broker's id until its session expires, and the broker
                # ends at once if its id is taken.
                waits = self._zookeeper is not None and not broker.running
                if not waits or time.monotonic() > remembered_until:
                    raise
                time.sleep(0.5)
            else:
                return

    def upgrade(self, node_id: int, version: str) -> None:
        """Stop one node cleanly, and start it with another release, on its ports and data.

        The cluster's `version` becomes that release when its last node has it. Features keep their
        levels until a client updates them.

        Args:
            node_id: A node that runs.
            version: A newer release with KRaft. Its jars should already be cached: downloading them
                would prolong the absence of the node.

        Raises:
            BrokerFailed: It does not start with its data.
            KafkaNotAvailable: The jars are not available.
            ValueError: One of the two releases does not use KRaft.
        """
        new = release(version)
        if not (new.kraft and self._release.kraft):
            raise ValueError(f"the harness upgrades only KRaft, not {self.version} to {version}")
        jars.resolve(version)
        node = self._brokers[node_id].node
        self._brokers[node_id].stop()
        self._write_properties(new, node, [each.node for each in self._brokers.values()])
        self._brokers[node_id] = self._broker(new, node)
        self.start(node_id)
        if all(broker.release.version == version for broker in self._brokers.values()):
            self._release = new

    def pause(self, node_id: int) -> None:
        """Send SIGSTOP to one node: its connections stay open, but it does not answer."""
        self._brokers[node_id].pause()

    def resume(self, node_id: int) -> None:
        """Send SIGCONT to one node."""
        self._brokers[node_id].resume()

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
        *,
        timeout: float = 30.0,
    ) -> None:
        """Create a topic and wait until every running broker reports a leader for each partition.

        Args:
            topic: The name.
            partitions: Number of partitions.
            replication_factor: Replicas of each partition; None: one per node, at most three.
            config: Topic configs (`{"cleanup.policy": "compact"}`).
            timeout: Seconds for the whole call.

        Raises:
            WireError: The cluster rejects the topic.
            BrokerFailed: A broker did not report the topic in time.
        """
        replicas = replication_factor or min(3, self._count)
        configs = settings(config)
        running = [broker for broker in self._brokers.values() if broker.running]
        if not running:
            raise BrokerFailed("no node is running")
        if self._release.number < (0, 10, 2):
            java.create_topic_by_zookeeper(
                self.zookeeper(), topic, partitions, replicas, configs, self.version
            )
        else:
            controller = running[0].view().controller
            asked = self._brokers.get(controller, running[0])
            wire.create_topic(
                asked.address, topic, partitions, replicas, configs, kafka=self.version
            )
        await_topic(topic, partitions, lambda: [broker.view(topic) for broker in running], timeout)

    # -- setup

    def _lay_out(self) -> None:
        """Choose ports, write all configuration files, and format all KRaft nodes."""
        folder = Path(tempfile.mkdtemp(prefix=f"kafka-{self.version}-"))
        process.remove_at_exit(folder)
        self._folder = folder
        listeners = ["PLAINTEXT", *(self.security.listeners if self.security else ())]
        if self._advertised is not None:
            listeners.append(config.INTERNAL)
        ports = free_ports((len(listeners) + 1) * self._count + 1)
        self._zookeeper_port = ports.pop()
        if self._port is not None:
            ports[-1] = self._port
        nodes = [
            Node(
                node_id,
                {listener: ports.pop() for listener in listeners},
                ports.pop() if self._release.kraft else 0,
                folder / f"node-{node_id}",
                self._advertised[node_id] if self._advertised is not None else None,
                "127.0.0.1" if self.security is None else self.security.host,
                self._peer_ports is not None,
                (self._more_data[node_id],) if node_id in self._more_data else (),
            )
            for node_id in range(self._count)
        ]
        if self._peer_ports is not None:
            nodes = [
                replace(
                    node,
                    ports={**node.ports, config.INTERNAL: internal},
                    controller_port=controller,
                )
                for node, (internal, controller) in zip(nodes, self._peer_ports, strict=True)
            ]
        self._secured = self.security.settings(folder) if self.security else {}
        for node in nodes:
            node.folder.mkdir()
            if node.named_peers:
                config.write_hosts(node, nodes)
            self._write_properties(self._release, node, nodes)
        if self._release.kraft:
            arguments = self.security.format_arguments() if self.security else []
            storage.format_nodes(self._release, nodes, self._config, arguments)
        else:
            self._zookeeper = ZooKeeper(self._release, folder / "zookeeper", self._zookeeper_port)
        self._brokers = {node.node_id: self._broker(self._release, node) for node in nodes}

    def _write_properties(self, release: Release, node: Node, nodes: Sequence[Node]) -> None:
        settings = config.broker_settings(release, node, nodes, self._zookeeper_port)
        config.write_properties(node.properties, {**settings, **self._secured, **self._config})

    def _broker(self, release: Release, node: Node) -> Broker:
        archived = not self._jvm_options
        options = jvm.options(release.version, quick=self._quick, archived=archived)
        options += [f"-Xmx{self._heap}", *self._jvm_options]
        if node.named_peers:
            options.append(f"-Djdk.net.hosts.file={node.hosts}")
        environment = self._environments[node.node_id] if self._environments else None
        return Broker(release, node, options, self._plugins, environment)

    def _launch_all(self) -> None:
        if self._zookeeper is not None:
            self._zookeeper.launch()
            self._zookeeper.await_answer(self._zookeeper.listens)
        for broker in self._brokers.values():
            broker.launch()

    def _await_members(self, broker: Broker, members: set[int], timeout: float) -> None:
        if self._release.number < (0, 9):
            members = set()  # 0.8 lists no broker, not even itself, before its first topic

        def knows_all() -> bool:
            for node_id in members:  # one that has ended is never seen
                self._brokers[node_id].raise_if_ended()
            return members <= broker.view().brokers.keys()

        broker.await_answer(knows_all, timeout)

    # -- cleanup

    def _end(self, *, keep_logs: bool) -> None:
        """End every process and remove the folder, except for the logs after a failure."""
        folder, self._folder = self._folder, None
        if folder is None:
            return
        # The data is not needed: a clean shutdown would only cost seconds.
        for broker in self._brokers.values():
            broker.kill()
        if self._zookeeper is not None:
            self._zookeeper.kill()
        self._brokers, self._zookeeper = {}, None
        if not keep_logs:
            process.remove(folder)
            return
        for data in [*folder.glob("node-*/data"), *folder.glob("zookeeper/data")]:
            shutil.rmtree(data, ignore_errors=True)
        process.keep(folder)
        print(f"tools.kafka: the logs of the failed cluster are kept in {folder}", file=sys.stderr)
