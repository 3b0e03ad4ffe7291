"""The two requests that the harness sends to brokers, encoded by hand.

The harness tests the client, so it must not use the client's code: a bug there would go unnoticed.
Metadata v0/v1 and CreateTopics v0-v2 are fixed layouts of a few fields, and every broker from 0.8.2
to 4.4 supports one of their versions.

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
    """A broker returned an error code or an invalid response."""


@dataclass
class ClusterView:
    """One broker's view of its cluster.

    Attributes:
        brokers: Advertised (host, port) by node id.
        controller: Node id of the controller; -1 if unknown or not reported (version 0).
        topics: Error code, and leader by partition (-1: none), by topic.
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
    """Send one request on a new connection; return the body of its response."""
    head = struct.pack(">hhi", api_key, version, 1) + _text("tools.kafka")
    with socket.create_connection(address, timeout) as connection:
        connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        with connection.makefile("rb") as stream:
            size = stream.read(4)
            if len(size) < 4:
                raise ConnectionResetError(
                    f"{address[0]}:{address[1]} closed the connection without a response"
                )
            answer = stream.read(struct.unpack(">i", size)[0])
    return answer[4:]


def ask_metadata(
    address: tuple[str, int],
    *topics: str,
    version: int = 0,
    timeout: float = 5.0,
) -> ClusterView:
    """The view of the cluster and of `topics` by the broker at `address`.

    In version 0 no topic means all topics. The request may create a missing topic.

    Raises:
        OSError: The broker is unreachable or closes the connection.
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
            reader.take(">h")  # error: 5 without a leader, 9 while a replica is down
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
    """Create a topic at the controller's `address`; other brokers may report it later.

    Args:
        kafka: The broker's release: at least 0.10.2, the first with a reliable CreateTopics.

    Raises:
        WireError: The broker rejects the topic; an existing topic is not an error.
        OSError: The broker is unreachable.
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
            raise WireError(f"cannot create topic {name}: error {error} {message}".rstrip())
