"""The processes of a cluster: brokers and ZooKeeper, each in its own JVM on loopback."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from tools.kafka import config, jars, jvm
from tools.kafka.config import Node
from tools.kafka.process import Child
from tools.kafka.releases import Release
from tools.kafka.wire import ClusterView, ask_metadata

START_TIMEOUT = 120.0
"""Seconds that a broker may take to start: two shared cores can be slow."""

STOP_TIMEOUT = 60.0
"""Seconds that a broker may take to shut down cleanly before it is killed."""

_POLL = 0.05  # seconds between two checks of a condition
_PORT_TAKEN = "Address already in use"


class BrokerFailed(RuntimeError):
    """A broker or ZooKeeper ended or did not answer; the message has its last output."""


class PortTaken(BrokerFailed):
    """Another process took the port before the broker bound it."""


def free_ports(count: int) -> list[int]:
    """Reserve ports on 127.0.0.1 that are free, below the range of outgoing connections.

    A port of that range could be taken by any connection while its broker is down, and a broker
    must come back on the port its clients know. The ports stay reserved until this process ends, so
    no other process that asks here gets them meanwhile. `AIOKAFKA_LITE_PORTS=12000-18000` changes
    the range.
    """
    lowest, _, highest = os.environ.get("AIOKAFKA_LITE_PORTS", "12000-32000").partition("-")
    # Not the shared generator: two processes that run the same seeded test must not choose the same
    # ports.
    draw = random.SystemRandom()
    found: list[int] = []
    while len(found) < count:
        port = draw.randrange(int(lowest), int(highest))
        if port in _reserved or not _reserve(port):
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found


_reserved: dict[int, BinaryIO] = {}  # the locked files, open until this process ends


def _reserve(port: int) -> bool:
    """Lock the port's file; False if another process has it."""
    folder = jars.cache_dir() / "ports"
    folder.mkdir(parents=True, exist_ok=True)
    handle = (folder / str(port)).open("ab")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return False
    _reserved[port] = handle
    return True


def await_condition(condition: Callable[[], bool], timeout: float) -> bool:
    """Poll until `condition()` holds or `timeout` seconds have passed; True if it held."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


class JavaProcess:
    """One Java program of a Kafka release that listens on ports, restartable.

    Args:
        release: The release whose jars it runs on.
        arguments: The main class and its arguments.
        options: All JVM options.
        log: The file for its output.
        plugins: Folders of class files, behind the release's jars on the class path.
        environment: Added to the environment of this process.
    """

    def __init__(
        self,
        release: Release,
        arguments: Sequence[str],
        options: Sequence[str],
        log: Path,
        plugins: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._release = release
        self._arguments = list(arguments)
        self._options = list(options)
        self.log = log
        self._plugins = plugins
        self._environment = environment
        self._child: Child | None = None

    @property
    def running(self) -> bool:
        """True while the process runs, also if paused."""
        return self._child is not None and self._child.exit_status is None

    @property
    def pid(self) -> int:
        """The process id.

        Raises:
            BrokerFailed: The process does not run.
        """
        return self._running_child().pid

    def launch(self) -> None:
        """Start the process and return at once.

        Raises:
            BrokerFailed: It is already running.
        """
        if self.running:
            raise BrokerFailed(f"{self._arguments[0]} is already running (pid {self.pid})")
        # The class archive was made with the jars, so they come first.
        class_path = os.pathsep.join(
            [jars.class_path(self._release.version), *map(str, self._plugins)]
        )
        command = [jars.java(), *self._options, "-cp", class_path, *self._arguments]
        self._child = Child(command, self.log, self._environment)

    def await_answer(self, answered: Callable[[], bool], timeout: float = START_TIMEOUT) -> None:
        """Wait until `answered()` returns True; an OSError from it means not yet.

        Raises:
            PortTaken: The process ended because its port was in use.
            BrokerFailed: The process ended for another reason, or did not answer in time.
        """

        def ended_or_answered() -> bool:
            if not self.running:
                return True
            try:
                return answered()
            except OSError:
                return False

        in_time = await_condition(ended_or_answered, timeout)
        self.raise_if_ended()
        child = self._child
        assert child is not None
        if not in_time:
            raise BrokerFailed(
                f"{self._arguments[0]} did not answer within {timeout:.0f} s; "
                f"{self.log}:\n{child.tail()}"
            )

    def raise_if_ended(self) -> None:
        """Raise if the process ended by itself.

        Raises:
            PortTaken: Its port was taken.
            BrokerFailed: It ended for another reason.
        """
        child = self._child
        if child is None or child.exit_status is None:
            return
        said = self.log.read_text(errors="replace")
        if _PORT_TAKEN in said:
            line = next(line for line in said.splitlines() if _PORT_TAKEN in line)
            raise PortTaken(f"{self._arguments[0]}: {line}")
        raise BrokerFailed(
            f"{self._arguments[0]} ended with status {child.exit_status}; "
            f"{self.log}:\n{child.tail()}"
        )

    def kill(self) -> None:
        """Send SIGKILL and wait until the process has ended. No-op if it does not run."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def stop(self, timeout: float = STOP_TIMEOUT) -> bool:
        """Send SIGTERM, and SIGKILL after `timeout` seconds; False if it had to be killed."""
        child, self._child = self._child, None
        return child is None or child.terminate(timeout)

    def pause(self) -> None:
        """Send SIGSTOP: connections stay open, but nothing is answered."""
        self._running_child().pause()

    def resume(self) -> None:
        """Send SIGCONT."""
        self._running_child().resume()

    def _running_child(self) -> Child:
        if self._child is None or self._child.exit_status is not None:
            raise BrokerFailed(f"{self._arguments[0]} is not running")
        return self._child


class Broker(JavaProcess):
    """One Kafka broker, which with KRaft is also a controller.

    Args:
        release: The Kafka release.
        node: Its ports and folder; the server.properties must already exist.
        options: JVM options.
        plugins: As for `JavaProcess`.
        environment: As for `JavaProcess`.
    """

    def __init__(
        self,
        release: Release,
        node: Node,
        options: Sequence[str],
        plugins: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        options = [*options, config.logging_option(release, node.folder)]
        arguments = ["kafka.Kafka", str(node.properties)]
        super().__init__(release, arguments, options, node.log, plugins, environment)
        self.node = node

    @property
    def release(self) -> Release:
        """The Kafka release."""
        return self._release

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) of its plain listener."""
        return "127.0.0.1", self.node.ports["PLAINTEXT"]

    def view(self, *topics: str, timeout: float = 5.0) -> ClusterView:
        """The broker's view of the cluster and of these topics."""
        version = 1 if self._release.number >= (0, 10) else 0
        return ask_metadata(self.address, *topics, version=version, timeout=timeout)


class ZooKeeper(JavaProcess):
    """The ZooKeeper that a Kafka before KRaft needs."""

    def __init__(self, release: Release, folder: Path, port: int) -> None:
        folder.mkdir()
        settings = folder / "zookeeper.properties"
        config.write_zookeeper(settings, folder / "data", port)
        options = [
            *jvm.options(release.version),
            "-Xmx128m",
            # ZooKeeper 3.4 reads log4j's MBeans through a class that newer Javas refuse.
            "-Dzookeeper.jmx.log4j.disable=true",
            config.logging_option(release, folder),
        ]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        super().__init__(release, [main, str(settings)], options, folder / "zookeeper.log")
        self._address = ("127.0.0.1", port)

    def listens(self) -> bool:
        """True if it accepts connections."""
        with socket.create_connection(self._address, 1.0):
            return True
