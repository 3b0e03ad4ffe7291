"""Java programs on a Kafka release's class path: its own tools, and this project's programs.

`dump` and `load` (java/Dump.java, java/Load.java) read and write every part of a record: null keys
and values, headers, timestamps. Brokers before 0.10 reject newer Java clients; for them
java/OldDump.java and java/OldLoad.java read and write keys and values only, as in message format 0.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.kafka import jars, jvm, resident
from tools.kafka.releases import NEWEST, release

_SOURCES = Path(__file__).parent / "java"
_TIMEOUT = 300.0  # seconds one program may take


class JavaFailed(RuntimeError):
    """A Java program failed; the message has its last output."""


@dataclass(frozen=True)
class Record:
    """A record read or to be written by Java.

    Attributes:
        partition: None: the producer chooses.
        timestamp: Milliseconds since the epoch; None: the producer chooses; -1: none.
        timestamp_type: 0 create time, 1 log append time, -1 none (message format 0).
    """

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp: int | None = None
    offset: int = -1
    timestamp_type: int = -1

    def to_json(self) -> str:
        """The line that Load.java reads."""
        return json.dumps(
            {
                "partition": self.partition,
                "timestamp": self.timestamp,
                "key": _encode(self.key),
                "value": _encode(self.value),
                "headers": [[name, _encode(value)] for name, value in self.headers],
            }
        )

    @classmethod
    def from_json(cls, line: str) -> Record:
        """The record in a line that Dump.java wrote."""
        found = json.loads(line)
        return cls(
            key=_decode(found["key"]),
            value=_decode(found["value"]),
            headers=tuple((name, _decode(value)) for name, value in found["headers"]),
            partition=found["partition"],
            timestamp=found["timestamp"],
            offset=found["offset"],
            timestamp_type=found["timestampType"],
        )


@dataclass(frozen=True)
class Digest:
    """The number of a partition's records and the SHA-256 of their canonical form."""

    count: int
    sha256: str


@dataclass
class JavaTools:
    """The Java programs of one release against one cluster.

    Args:
        bootstrap_servers: The cluster.
        version: Its release, which selects the clients: 4.4 supports brokers from 2.1, 3.9 from
            0.10.
        settings: Client configs for every program, such as security.
    """

    bootstrap_servers: str
    version: str = NEWEST
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def clients(self) -> str:
        """The release whose clients are used."""
        number = release(self.version).number
        if number >= (2, 1):
            return NEWEST
        return "3.9.2" if number >= (0, 10) else "0.8.2.2"

    @property
    def _old(self) -> bool:
        return release(self.version).number < (0, 10)

    def dump(self, topic: str) -> list[Record]:
        """Every record of `topic` up to its end now, by partition and offset."""
        lines = self._read(topic, "json")
        records = [Record.from_json(line) for line in lines]
        return sorted(records, key=lambda record: (record.partition or 0, record.offset))

    def digest(self, topic: str, isolation: str = "read_uncommitted") -> dict[int, Digest]:
        """Partition to the digest of what it holds now (see `tools.kafka.canonical`)."""
        return _digests(self._read(topic, "digest", isolation))

    def load(self, topic: str, records: Iterable[Record], **settings: object) -> list[int]:
        """Write `records` in order; the offsets they got. `settings` are the producer's."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "records"
            path.write_text("".join(record.to_json() + "\n" for record in records))
            lines = self._write(topic, ["file", str(path)], settings)
        return [int(line) for line in lines if line]

    def generate(
        self, topic: str, partitions: int, count: int, seed: int = 0, **settings: object
    ) -> dict[int, Digest]:
        """Write `count` seeded random records; the digests of what was acknowledged.

        About one key in eight and one value in sixty-four is null; headers are repeated, empty
        and null; half of the values' bytes compress. Before 0.11 there are no headers, before 0.10
        no timestamps.
        """
        kind = "random" if release(self.version).number >= (0, 11) else "plain"
        arguments = [kind, str(partitions), str(count), str(seed)]
        return _digests(self._write(topic, arguments, settings))

    def _read(self, topic: str, mode: str, isolation: str = "read_uncommitted") -> list[str]:
        if self._old:
            return _call("OldDump", [self.bootstrap_servers, topic, mode], self.clients)
        with _properties({**self.settings, "isolation.level": isolation}) as path:
            return _call("Dump", [self.bootstrap_servers, topic, mode, path], self.clients)

    def _write(self, topic: str, arguments: list[str], settings: Mapping[str, object]) -> list[str]:
        program = "OldLoad" if self._old else "Load"
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        if release(self.version).number < (0, 11):
            named.setdefault("enable.idempotence", "false")  # newer clients enable it by default
        with _properties({**self.settings, **named}) as path:
            return run(program, [self.bootstrap_servers, topic, path, *arguments], self.clients)


def run(
    program: str,
    arguments: Iterable[str],
    version: str = NEWEST,
    *,
    timeout: float = _TIMEOUT,
    given: str = "",
) -> list[str]:
    """Run a main class, or one of this project's sources by its bare name; return its output lines.

    Args:
        program: The class.
        arguments: Its arguments.
        version: Release of its class path.
        timeout: Seconds that it may take.
        given: Its standard input.

    Raises:
        KafkaNotAvailable: Java or the jars are not available.
        JavaFailed: It fails, or does not end within `timeout` seconds.
    """
    own = [] if "." in program else [program]
    command = [*_command(own, version), program, *arguments]
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise JavaFailed(f"{program} did not end within {timeout:.0f} s") from None
    if done.returncode:
        raise JavaFailed(f"{program}: status {done.returncode}: {done.stderr.strip()[-8000:]}")
    return done.stdout.splitlines()


def _command(sources: Iterable[str], version: str) -> list[str]:
    """The command line of a JVM with a release and these sources on its class path."""
    # The class path with which the class archive was made must come first.
    class_path = [jars.class_path(version), *(str(compiled(each, version)) for each in sources)]
    options = [*jvm.options(version), "-Xmx512m", f"-Dlog4j.configuration=file:{_quiet_log4j()}"]
    options.append("-Dorg.apache.logging.log4j.level=OFF")  # Kafka 4's would log to the output
    return [jars.java(), *options, "-cp", os.pathsep.join(class_path)]


_residents: dict[str, resident.Resident] = {}  # by release
_choosing = threading.Lock()


def _call(program: str, arguments: list[str], version: str) -> list[str]:
    """Run the reading program in the release's resident JVM.

    The writing program gets a new JVM: in a JVM that has written before, Java's producer sometimes
    repeats its first batches until they expire (OutOfOrderSequenceException in the broker's log).

    Raises:
        KafkaNotAvailable: Java or the jars are not available.
        JavaFailed: The program fails or exceeds its timeout.
    """
    with _choosing:
        if version not in _residents:
            command = _command(["Resident", program], version)
            _residents[version] = resident.Resident([*command, "Resident"])
    try:
        ended_well, output = _residents[version].call(program, arguments, _TIMEOUT)
    except resident.ResidentEnded as error:
        raise JavaFailed(f"{program}: {error}") from error
    if not ended_well:
        raise JavaFailed(f"{program}: {output.strip()[-2000:]}")
    return output.splitlines()


def create_topic_by_zookeeper(
    zookeeper: str,
    topic: str,
    partitions: int,
    replicas: int,
    settings: dict[str, str],
    version: str,
) -> None:
    """Create a topic on a broker without CreateTopics, with its release's own tool.

    Raises:
        JavaFailed: It rejects the topic; an existing topic is not an error.
    """
    arguments = ["--zookeeper", zookeeper, "--create", "--topic", topic]
    arguments += ["--partitions", str(partitions), "--replication-factor", str(replicas)]
    for name, value in settings.items():
        arguments += ["--config", f"{name}={value}"]
    try:
        run("kafka.admin.TopicCommand", arguments, version)
    except JavaFailed as error:
        if "already exists" not in str(error):
            raise


def _digests(lines: list[str]) -> dict[int, Digest]:
    """The lines `partition count sha256`."""
    parts = [line.split() for line in lines if line]
    return {int(number): Digest(int(count), sha256) for number, count, sha256 in parts}


def compiled(program: str, version: str = NEWEST) -> Path:
    """The folder with the class files of one source, compiled once against `version`.

    Raises:
        JavaFailed: It does not compile, or this Java has no compiler.
    """
    source = _SOURCES / f"{program}.java"
    sources = [source, _SOURCES / "Canonical.java"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    folder = jars.cache_dir() / "classes" / f"{program}-{version}-{digest}"
    with jars.lock("javac"):
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                command = [
                    jars.java(),
                    *jars.QUICK,
                    "--module",
                    "jdk.compiler/com.sun.tools.javac.Main",
                ]
                # Only the launcher understands DIR/*, and this is not one.
                each = os.pathsep.join(map(str, sorted(jars.resolve(version).glob("*.jar"))))
                command += ["-nowarn", "-d", f"{scratch}/out", "-cp", each]
                done = subprocess.run(
                    [*command, *map(str, sources)], capture_output=True, text=True, timeout=_TIMEOUT
                )
                if done.returncode:
                    said = (done.stderr + done.stdout).strip()
                    raise JavaFailed(f"compiling {source.name} (requires a JDK): {said[-8000:]}")
                (Path(scratch) / "out").rename(folder)
    return folder


def _quiet_log4j() -> Path:
    """Configure log4j 1 of Kafka before 4, which warns if it has no configuration file."""
    path = jars.cache_dir() / "quiet.log4j.properties"
    if not path.exists():
        path.write_text("log4j.rootLogger=OFF\n")
    return path


@contextlib.contextmanager
def _properties(settings: Mapping[str, str]) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        yield str(path)


def _encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
