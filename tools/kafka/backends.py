"""The sources of a real Kafka: a given address, Docker, or jars, in this order."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from tools.kafka import docker, jars, wire
from tools.kafka.broker import BrokerFailed
from tools.kafka.cluster import KafkaCluster
from tools.kafka.releases import NEWEST
from tools.kafka.topics import create_topic_at


class RealKafka(Protocol):
    """The operations of every backend; `OwnCluster` adds those of a cluster started here."""

    @property
    def version(self) -> str:
        """Kafka's release; the newest is assumed for a given address."""

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of each broker, comma-separated."""

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
        *,
        timeout: float = 30.0,
    ) -> None:
        """Create a topic and wait until it is usable; None: up to three replicas."""


class OwnCluster(RealKafka, Protocol):
    """A cluster started by this harness, so that its nodes may be killed."""

    @property
    def node_ids(self) -> list[int]:
        """The ids of all nodes."""

    def kill(self, node_id: int) -> None:
        """SIGKILL one node."""

    def stop(self, node_id: int) -> None:
        """Shut one node down cleanly."""

    def start(self, node_id: int) -> None:
        """Start a killed or stopped node; wait until it answers."""

    def pause(self, node_id: int) -> None:
        """Suspend a node: its connections stay open, but it does not answer."""

    def resume(self, node_id: int) -> None:
        """Resume a suspended node."""


UNFENCED: Final[Mapping[str, object]] = {"broker.session.timeout.ms": 60_000}
"""For a broker that is never killed. If a busy machine did not schedule it for the harness's six
seconds, its controller would fence it: its partitions would lose their leader, get another epoch,
and all coordinators would load their state again."""


class GivenKafka:
    """The Kafka at `KAFKA_BOOTSTRAP`, which the harness neither starts nor stops."""

    version = NEWEST

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        host, _, port = bootstrap_servers.split(",")[0].strip().rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"KAFKA_BOOTSTRAP must be host:port[,...], not {bootstrap_servers!r}")
        self.address = (host.strip("[]"), int(port))

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
        *,
        timeout: float = 30.0,
    ) -> None:
        """See `RealKafka`."""
        create_topic_at([self.address], topic, partitions, replication_factor, config, timeout)


def available() -> str | None:
    """Why no real Kafka is available on this machine; None if one probably is.

    Looks for the address, the Docker engine and the programs; starts nothing and uses no registry.
    """
    if os.environ.get("KAFKA_BOOTSTRAP"):
        return None
    no_docker = docker.missing()
    if no_docker is None:
        return None
    no_jars = jars.missing()
    if no_jars is None:
        return None
    return f"KAFKA_BOOTSTRAP is not set; {no_docker}; {no_jars}"


@contextlib.contextmanager
def open_kafka() -> Iterator[RealKafka]:
    """The newest Kafka available, with one node: at the given address, in Docker, or from jars.

    Raises:
        KafkaNotAvailable: No source is available; the message names what each lacks.
        BrokerFailed: The Kafka does not start or answer.
    """
    bootstrap_servers = os.environ.get("KAFKA_BOOTSTRAP")
    if bootstrap_servers:
        yield _answering(GivenKafka(bootstrap_servers))
        return
    with open_cluster(1, UNFENCED) as cluster:
        yield cluster


@contextlib.contextmanager
def open_cluster(nodes: int, config: Mapping[str, object] | None = None) -> Iterator[OwnCluster]:
    """A new cluster whose nodes may be killed: in Docker, or from jars.

    Args:
        nodes: How many brokers.
        config: Broker settings that override the harness's.

    Raises:
        KafkaNotAvailable: Neither is available.
        BrokerFailed: The cluster does not start.
    """
    if docker.missing() is None:
        with docker.DockerCluster(nodes, config) as in_docker:
            yield in_docker
        return
    no_jars = jars.missing()
    if no_jars is not None:
        raise jars.KafkaNotAvailable(f"{docker.missing()}; {no_jars}")
    with KafkaCluster(jars.resolve_newest(), nodes, config) as cluster:
        yield cluster


def _answering(kafka: GivenKafka, timeout: float = 30.0) -> GivenKafka:
    """Return `kafka` once it answers.

    Raises:
        BrokerFailed: It does not answer within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            wire.ask_metadata(kafka.address, version=1)
        except OSError as error:
            if time.monotonic() > deadline:
                raise BrokerFailed(f"{kafka.bootstrap_servers} does not answer: {error}") from error
            time.sleep(0.5)
        else:
            return kafka
