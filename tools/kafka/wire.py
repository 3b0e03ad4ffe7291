"""The two questions the harness asks a broker, in bytes written by hand.

The harness judges the client, so it must not stand on the client's code: a bug there would hide
itself. Metadata v0/v1 and CreateTopics v0-v2 are fixed layouts of a few fields, and between them
every broker from 0.8.2 to 4.4 answers them.

Source: MetadataRequest.json, CreateTopicsRequest.json; KIP-4.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

from tools.kafka.releases import NEWEST, release

_METADATA = 3
_CREATE_TOPICS = 19
_TOPIC_ALREADY_EXISTS = 36


class WireError(RuntimeError):
    """A broker answered with an error code, or not in the layout it should."""


@dataclass
class ClusterView:
    """What one broker says of its cluster.

    Attributes:
        brokers: Node id to advertised (host, port).
        controller: Node id of the controller, -1 when unknown or not told (version 0).
        topics: Topic to (error code, leader of each partition, -1 for none).
    """

    brokers: dict[int, tuple[str, int]] = field(default_factory=dict)
    controller: int = -1
    topics: dict[str, tuple[int, dict[int, int]]] = field(default_factory=dict)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: str) -> int:
        (number,) = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return int(number)

    def text(self) -> str:
        length = self.take(">h")
        if length < 0:
            return ""
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def skip_int32s(self) -> None:
        count = self.take(">i")
        self._at += 4 * count


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _ask(
    address: tuple[str, int], api_key: int, version: int, body: bytes, timeout: float
) -> bytes:
    """One request on a connection of its own; the body of its response."""
    head = struct.pack(">hhi", api_key, version, 1) + _text("tools.kafka")
    with socket.create_connection(address, timeout) as connection:
        connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        with connection.makefile("rb") as stream:
            size = stream.read(4)
            if len(size) < 4:
                raise ConnectionResetError(f"{address[0]}:{address[1]} closed without an answer")
            answer = stream.read(struct.unpack(">i", size)[0])
    return answer[4:]


def ask_metadata(
    address: tuple[str, int],
    *topics: str,
    version: int = 0,
    timeout: float = 5.0,
) -> ClusterView:
    """What the broker at `address` says of the cluster and of `topics`.

    In version 0 no topic means all; a named topic that is not there may be created by it.

    Raises:
        OSError: When it cannot be reached or closes the connection.
    """
    body = struct.pack(">i", len(topics)) + b"".join(map(_text, topics))
    reader = _Reader(_ask(address, _METADATA, version, body, timeout))
    view = ClusterView()
    for _ in range(reader.take(">i")):
        node_id = reader.take(">i")
        view.brokers[node_id] = (reader.text(), reader.take(">i"))
        if version >= 1:
            reader.text()  # rack
    if version >= 1:
        view.controller = reader.take(">i")
    for _ in range(reader.take(">i")):
        error = reader.take(">h")
        topic = reader.text()
        if version >= 1:
            reader.take(">b")  # is_internal
        leaders: dict[int, int] = {}
        for _ in range(reader.take(">i")):
            reader.take(">h")  # error: 5 while there is no leader, 9 while a replica is away
            partition = reader.take(">i")
            leaders[partition] = reader.take(">i")
            reader.skip_int32s()  # replicas
            reader.skip_int32s()  # in-sync replicas
        view.topics[topic] = (error, leaders)
    return view


def create_topic(
    address: tuple[str, int],
    topic: str,
    partitions: int,
    replication_factor: int,
    config: dict[str, str],
    *,
    kafka: str = NEWEST,
    timeout: float = 30.0,
) -> None:
    """Ask the controller, at `address`, for a topic. It may take a moment to be everywhere.

    Args:
        kafka: The broker's release: 0.10.2 at least, the first that takes this request well.

    Raises:
        WireError: When the broker refuses; that the topic is there already is no refusal.
        OSError: When the broker cannot be reached.
    """
    number = release(kafka).number
    version = 2 if number >= (1,) else 1 if number >= (0, 10, 2) else 0
    settings = b"".join(_text(name) + _text(value) for name, value in config.items())
    body = (
        struct.pack(">i", 1)
        + _text(topic)
        + struct.pack(">ihi", partitions, replication_factor, 0)
        + struct.pack(">i", len(config))
        + settings
        + struct.pack(">i", int(timeout * 1000))
        + (b"\0" if version >= 1 else b"")
    )
    reader = _Reader(_ask(address, _CREATE_TOPICS, version, body, timeout + 5))
    if version >= 2:
        reader.take(">i")  # throttle_time_ms
    for _ in range(reader.take(">i")):
        name = reader.text()
        error = reader.take(">h")
        message = reader.text() if version >= 1 else ""
        if error not in (0, _TOPIC_ALREADY_EXISTS):
            raise WireError(f"creating topic {name}: error {error} {message}".rstrip())
