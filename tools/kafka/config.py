"""The configuration files of brokers and ZooKeeper, including their logging.

The settings make a test cluster small and fast to start: four partitions for each internal topic
instead of fifty, no delay before the first rebalance.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.kafka.releases import Release

INTERNAL = "INTERNAL"
"""The listener between brokers if clients connect through a proxy, so that faults of the proxy do
not affect replication."""

_LOG4J_1 = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d{ISO8601} %p %c{1} %m%n
"""

_LOG4J_2 = """\
status = error
# log4j's own shutdown hook would silence the broker's last words.
shutdownHook = disable
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = %d{ISO8601} %p %c{1} %m%n
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
"""


@dataclass(frozen=True)
class Node:
    """The ports and the folder of one broker.

    Attributes:
        node_id: Its id, from 0, to detect clients that confuse 0 with "none".
        ports: Port on 127.0.0.1 by listener name; always includes `PLAINTEXT`.
        controller_port: Port of its KRaft controller; 0 with ZooKeeper.
        folder: Holds its data, configuration and log.
        advertised_port: Port advertised for `PLAINTEXT`; None: the actual port.
        secured_host: Name advertised for the listeners with TLS or SASL.
        named_peers: Nodes connect to each other by names, which each resolves by its `hosts` file.
        more_data: Folders for logs beside its own, such as small disks.
    """

    node_id: int
    ports: Mapping[str, int]
    controller_port: int
    folder: Path
    advertised_port: int | None = None
    secured_host: str = "127.0.0.1"
    named_peers: bool = False
    more_data: tuple[Path, ...] = ()

    @property
    def internal_host(self) -> str:
        """The address at which the other nodes connect to it."""
        return f"broker-{self.node_id}.internal" if self.named_peers else "127.0.0.1"

    @property
    def hosts(self) -> Path:
        """The file by which it resolves the names of its peers."""
        return self.folder / "hosts"

    @property
    def log(self) -> Path:
        """The broker's output."""
        return self.folder / "broker.log"

    @property
    def properties(self) -> Path:
        """The server.properties file."""
        return self.folder / "server.properties"


def write_properties(path: Path, settings: Mapping[str, object]) -> None:
    """Write a Java properties file, without the settings that are None."""
    lines = [f"{name}={value}" for name, value in settings.items() if value is not None]
    path.write_text("\n".join(lines) + "\n")


def peer_address(source: int, target: int) -> str:
    """The loopback address at which a node connects to another one, if its peers have names."""
    return f"127.0.{source + 1}.{target + 1}"


def write_hosts(node: Node, nodes: Sequence[Node]) -> None:
    """Write the file by which the node finds its peers."""
    lines = [f"127.0.0.1 localhost {node.internal_host} {socket.gethostname()}"]
    lines += [
        f"{peer_address(node.node_id, each.node_id)} {each.internal_host}"
        for each in nodes
        if each.node_id != node.node_id
    ]
    node.hosts.write_text("\n".join(lines) + "\n")


def logging_option(release: Release, folder: Path) -> str:
    """Write the logging configuration into `folder` and return the JVM option for it."""
    if release.number >= (4,):
        path = folder / "log4j2.properties"
        path.write_text(_LOG4J_2)
        return f"-Dlog4j2.configurationFile={path}"
    path = folder / "log4j.properties"
    path.write_text(_LOG4J_1)
    return f"-Dlog4j.configuration=file:{path}"


def write_zookeeper(path: Path, data: Path, port: int) -> None:
    """Write ZooKeeper's configuration: one server, loopback only."""
    settings = {
        "dataDir": data,
        "clientPortAddress": "127.0.0.1",
        "clientPort": port,
        "tickTime": 1000,  # milliseconds; a session may be as short as two ticks
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
    }
    write_properties(path, settings)


def broker_settings(
    release: Release,
    node: Node,
    nodes: Sequence[Node],
    zookeeper_port: int,
) -> dict[str, object]:
    """The server.properties of one node of a cluster."""
    replicas = min(3, len(nodes))
    settings: dict[str, object] = {
        "log.dirs": ",".join(map(str, (node.folder / "data", *node.more_data))),
        "num.partitions": 4,
        "auto.create.topics.enable": "true",
        "default.replication.factor": replicas,
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": replicas,
        "num.network.threads": 2,
        "num.io.threads": 4,
        "log.cleaner.dedupe.buffer.size": 16_777_216,
        "log.cleaner.backoff.ms": 1000,
        "log.segment.delete.delay.ms": 1000,
        "controlled.shutdown.retry.backoff.ms": 200,
    }
    if release.number >= (0, 9):
        settings["log.retention.ms"] = -1  # records stamped 1970 are kept
    if release.number >= (0, 11):
        settings |= {
            "transaction.state.log.num.partitions": 4,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": min(2, replicas),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
            "group.initial.rebalance.delay.ms": 0,
        }
    if release.number >= (0, 10):
        settings["broker.rack"] = f"rack-{node.node_id}"
    if release.number >= (4,):
        settings |= {
            "share.coordinator.state.topic.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": min(2, replicas),
            # Each step of a rebalance takes a heartbeat (KIP-848), so make them frequent.
            "group.consumer.min.heartbeat.interval.ms": 500,
            "group.consumer.heartbeat.interval.ms": 500,
            "group.consumer.min.session.timeout.ms": 3000,  # for groups that request less than 45 s
            "group.share.min.heartbeat.interval.ms": 500,
            "group.share.heartbeat.interval.ms": 500,
            "group.share.min.record.lock.duration.ms": 1000,  # likewise, for less than 15 s
        }
    if release.kraft:
        settings |= _kraft(node, nodes)
    else:
        settings |= _zookeeper(release, node, zookeeper_port)
    return settings


def _listeners(node: Node) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in node.ports.items())


def _advertised(node: Node) -> str:
    ports = dict(node.ports)
    if node.advertised_port is not None:
        ports["PLAINTEXT"] = node.advertised_port
    hosts = {"PLAINTEXT": "127.0.0.1", INTERNAL: node.internal_host}
    return ",".join(
        f"{name}://{hosts.get(name, node.secured_host)}:{port}" for name, port in ports.items()
    )


def _kraft(node: Node, nodes: Sequence[Node]) -> dict[str, object]:
    voters = ",".join(
        f"{each.node_id}@{each.internal_host}:{each.controller_port}" for each in nodes
    )
    protocols = ",".join(
        f"{name}:{'PLAINTEXT' if name == INTERNAL else name}" for name in node.ports
    )
    return {
        "process.roles": "broker,controller",
        "node.id": node.node_id,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{_listeners(node)},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": _advertised(node),
        "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": INTERNAL if INTERNAL in node.ports else "PLAINTEXT",
        # Time after which a killed broker is fenced and its partitions get new leaders.
        "broker.session.timeout.ms": 6000,
        "broker.heartbeat.interval.ms": 1000,
    }


def _zookeeper(release: Release, node: Node, zookeeper_port: int) -> dict[str, object]:
    settings: dict[str, object] = {
        "broker.id": node.node_id,
        "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
        "zookeeper.connection.timeout.ms": 30_000,
        "zookeeper.session.timeout.ms": 6000,
    }
    if release.number < (0, 9):
        return settings | {"host.name": "127.0.0.1", "port": node.ports["PLAINTEXT"]}
    return settings | {"listeners": _listeners(node), "advertised.listeners": _listeners(node)}
