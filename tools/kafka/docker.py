"""Kafka in Docker, using testcontainers: the second choice after a given address.

It runs Apache's own image with KRaft, one container per node. Each node has a listener for other
nodes on the containers' network and one for this machine on a port of 127.0.0.1.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tools.kafka import wire
from tools.kafka.broker import START_TIMEOUT, BrokerFailed, await_condition, free_ports
from tools.kafka.releases import NEWEST
from tools.kafka.topics import create_topic_at

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.network import Network

IMAGE = "apache/kafka"
_CLUSTER_ID = "KafkaInDockerForTests1"


@cache
def missing() -> str | None:
    """Why Docker cannot be used, or None."""
    if shutil.which("docker") is None:
        return "Docker is not installed"
    try:
        answer = subprocess.run(["docker", "info"], capture_output=True, timeout=10)
    except subprocess.TimeoutExpired:
        return "the Docker engine gives no answer"
    if answer.returncode:
        return "no Docker engine answers"
    if importlib.util.find_spec("testcontainers") is None:
        return "testcontainers is not installed (it is in the extra `interop`)"
    return None


class DockerCluster:
    """The Docker counterpart of `tools.kafka.KafkaCluster`, same names.

    Args:
        nodes: Number of brokers, with ids from 0.
        config: Broker settings added to the harness's own.
    """

    version = NEWEST

    def __init__(self, nodes: int = 1, config: Mapping[str, object] | None = None) -> None:
        self._count = nodes
        self._config = dict(config or {})
        self._ports: list[int] = []
        self._network: Network | None = None
        self._containers: list[DockerContainer] = []

    @property
    def node_ids(self) -> list[int]:
        """The ids of all nodes."""
        return list(range(self._count))

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all nodes."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def __enter__(self) -> Self:
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.network import Network

        self._ports = free_ports(self._count)
        self._network = Network().create()
        try:
            for node_id, port in enumerate(self._ports):
                container = DockerContainer(f"{IMAGE}:{self.version}")
                container.with_bind_ports(9092, port)
                container.with_network(self._network).with_network_aliases(f"kafka-{node_id}")
                for name, value in self._environment(node_id).items():
                    container.with_env(name, value)
                self._containers.append(container)
                container.start()
            self._await_members(self.node_ids)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove every container and their network."""
        for container in self._containers:
            container.stop()
        self._containers = []
        if self._network is not None:
            self._network.remove()
            self._network = None

    def kill(self, node_id: int) -> None:
        """SIGKILL one node."""
        self._containers[node_id].get_wrapped_container().kill("SIGKILL")

    def stop(self, node_id: int) -> None:
        """Shut one node down cleanly."""
        self._containers[node_id].get_wrapped_container().stop(timeout=60)

    def start(self, node_id: int) -> None:
        """Start a node that was killed or stopped; wait until it answers."""
        self._containers[node_id].get_wrapped_container().start()
        self._await_members([node_id])

    def pause(self, node_id: int) -> None:
        """Suspend one node: its connections stay open, but it does not answer."""
        self._containers[node_id].get_wrapped_container().pause()

    def resume(self, node_id: int) -> None:
        """Resume one node."""
        self._containers[node_id].get_wrapped_container().unpause()

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
        *,
        timeout: float = 30.0,
    ) -> None:
        """See `tools.kafka.KafkaCluster.create_topic`."""
        addresses = [("127.0.0.1", port) for port in self._ports]
        create_topic_at(addresses, topic, partitions, replication_factor, config, timeout)

    def _environment(self, node_id: int) -> dict[str, str]:
        """The image turns KAFKA_A_B into the broker setting a.b."""
        replicas = min(3, self._count)
        voters = ",".join(f"{each}@kafka-{each}:9093" for each in self.node_ids)
        host = f"HOST://127.0.0.1:{self._ports[node_id]}"
        settings: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": node_id,
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": "HOST://:9092,CONTROLLER://:9093,PEERS://:9094",
            "advertised.listeners": f"{host},PEERS://kafka-{node_id}:9094",
            "listener.security.protocol.map": "HOST:PLAINTEXT,CONTROLLER:PLAINTEXT,PEERS:PLAINTEXT",
            "inter.broker.listener.name": "PEERS",
            "broker.rack": f"rack-{node_id}",
            "offsets.topic.num.partitions": 4,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.num.partitions": 4,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": min(2, replicas),
            "share.coordinator.state.topic.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": min(2, replicas),
            "default.replication.factor": replicas,
            "group.initial.rebalance.delay.ms": 0,
            "log.retention.ms": -1,
            "num.partitions": 4,
            **self._config,
        }
        named = {
            f"KAFKA_{name.replace('.', '_').upper()}": str(settings[name]) for name in settings
        }
        return {"CLUSTER_ID": _CLUSTER_ID, **named}

    def _await_members(self, node_ids: list[int]) -> None:
        def all_answer() -> bool:
            try:
                views = [
                    wire.ask_metadata(("127.0.0.1", self._ports[node_id]), version=1)
                    for node_id in node_ids
                ]
            except OSError:
                return False
            return all(set(node_ids) <= view.brokers.keys() for view in views)

        if not await_condition(all_answer, START_TIMEOUT):
            raise BrokerFailed(f"Kafka in Docker did not answer within {START_TIMEOUT:.0f} s")
