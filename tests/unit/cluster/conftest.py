"""A minimal Kafka on loopback: brokers that answer as a test specifies.

They use only the generated protocol, support any release's versions, and can be killed, silenced
and made to return errors. Tests see every request that reached them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import pytest

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.protocol.framing import decode_request_header, encode_response
from aiokafka_lite.protocol.message import Request, Response
from aiokafka_lite.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from aiokafka_lite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokafka_lite.protocol.registry import ApiKey, request_class
from aiokafka_lite.protocol.versions import RELEASES

Answer = Callable[["TinyBroker", Request, int], Response | Awaitable[Response] | None]


class TinyBroker:
    """One broker. `received` holds every request but ApiVersions, in order."""

    def __init__(self, kafka: TinyKafka, node_id: int) -> None:
        self.kafka = kafka
        self.node_id = node_id
        self.port = 0
        self.received: list[Request] = []
        self.connections = 0  # accepted so far
        self.speaking = asyncio.Event()  # cleared: requests are read and nothing is answered
        self.speaking.set()
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def asked(self, kind: type[Request]) -> list[Request]:
        return [request for request in self.received if isinstance(request, kind)]

    @property
    def open_connections(self) -> int:
        return len(self._open)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop as if killed: connections are reset, and new ones are refused."""
        if self._server is not None:
            # A connection that is being accepted while its Server closes is never closed
            # (asyncio trips over its own assertion): first stop accepting, then close.
            server, self._server = self._server, None
            asyncio.get_running_loop().remove_reader(server.sockets[0].fileno())
            for _ in range(5):
                await asyncio.sleep(0)
            server.close()
        await self.drop_connections()

    async def drop_connections(self) -> None:
        serving = list(self._open)
        for task, writer in list(self._open.items()):
            writer.transport.abort()
            task.cancel()
        if serving:
            await asyncio.wait(serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        self._open[task] = writer
        self.connections += 1
        try:
            while await self._answer_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # ended by the client or the test
        finally:
            writer.close()
            del self._open[task]

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        size = int.from_bytes(await reader.readexactly(4), "big")
        header, body = decode_request_header(await reader.readexactly(size))
        key, version = header.request_api_key, header.request_api_version
        if key == ApiKey.API_VERSIONS:
            if ApiKey.API_VERSIONS not in self.kafka.versions:
                return False  # as 0.8.2 and 0.9 do
            response: Response | None = self._api_versions()
            if version > self.kafka.versions[ApiKey.API_VERSIONS][1]:
                response, version = ApiVersionsResponse(error_code=35), 0  # KIP-511
        else:
            oldest, newest = self.kafka.versions[ApiKey(key)]
            assert oldest <= version <= newest, f"{ApiKey(key).name} {version}"
            request = request_class(key).decode(body, version)
            body.expect_end()
            self.received.append(request)
            answer = self.kafka.answers[ApiKey(key)](self, request, version)
            response = await answer if isinstance(answer, Awaitable) else answer
        while not self.speaking.is_set() and not reader.at_eof():
            await asyncio.sleep(0.002)
        if response is None:
            return False
        writer.write(encode_response(response, version, header.correlation_id))
        await writer.drain()
        return True

    def _api_versions(self) -> Response:
        rows = [ApiVersion(key, *range_) for key, range_ in self.kafka.versions.items()]
        return ApiVersionsResponse(api_keys=rows)


class TinyKafka:
    """A cluster of such brokers, and its metadata.

    Attributes:
        topics: Partition -> (leader, epoch), by name.
        errors: Error code by topic name, instead of its partitions.
        ids: Topic id by name.
        answers: The response, by API; None closes the connection.
        hidden: Nodes left out of the metadata.
    """

    def __init__(self, brokers: int = 1, release: str = "4.4") -> None:
        self.versions = RELEASES[release]
        self.brokers = {node_id: TinyBroker(self, node_id) for node_id in range(1, brokers + 1)}
        self.topics: dict[str, dict[int, tuple[int, int]]] = {"t": {0: (1, 0)}}
        self.errors: dict[str, int] = {}
        self.ids: dict[str, UUID] = {}
        self.cluster_id = "tiny"
        self.controller_id = 1
        self.hidden: set[int] = set()
        self.answers: dict[ApiKey, Answer] = {ApiKey.METADATA: TinyKafka.metadata}

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", broker.port) for broker in self.brokers.values()]

    @property
    def metadata_requests(self) -> list[MetadataRequest]:
        return [r for b in self.brokers.values() for r in b.asked(MetadataRequest)]

    @staticmethod
    def metadata(broker: TinyBroker, request: Request, version: int) -> Response:
        kafka = broker.kafka
        assert isinstance(request, MetadataRequest)
        everything = request.topics is None or (version == 0 and not request.topics)
        asked = kafka.topics if everything else [topic.name for topic in request.topics]
        response = MetadataResponse(
            brokers=[
                MetadataResponseBroker(b.node_id, "127.0.0.1", b.port, None)
                for b in kafka.brokers.values()
                if b.node_id not in kafka.hidden
            ],
            topics=[kafka._topic(name, version) for name in asked],
        )
        if version >= 1:
            response.controller_id = kafka.controller_id
        if version >= 2:
            response.cluster_id = kafka.cluster_id
        return response

    def _topic(self, name: str, version: int) -> MetadataResponseTopic:
        if name in self.errors or name not in self.topics:
            return MetadataResponseTopic(error_code=self.errors.get(name, 3), name=name)
        topic = MetadataResponseTopic(name=name)
        if version >= 10 and name in self.ids:
            topic.topic_id = self.ids[name]
        for partition, (leader, epoch) in self.topics[name].items():
            row = MetadataResponsePartition(
                error_code=0 if leader >= 0 else 5, partition_index=partition, leader_id=leader
            )
            if version >= 7:
                row.leader_epoch = epoch
            topic.partitions.append(row)
        return topic

    async def start(self) -> None:
        for broker in self.brokers.values():
            await broker.start()

    async def stop(self) -> None:
        for broker in self.brokers.values():
            await broker.stop()


@pytest.fixture
async def tiny_kafka() -> AsyncIterator[Callable[..., Awaitable[TinyKafka]]]:
    """Starts clusters and stops them after the test: `kafka = await tiny_kafka(brokers=3)`."""
    started: list[TinyKafka] = []

    async def start(brokers: int = 1, release: str = "4.4") -> TinyKafka:
        kafka = TinyKafka(brokers, release)
        started.append(kafka)
        await kafka.start()
        return kafka

    yield start
    for kafka in started:
        await kafka.stop()


@pytest.fixture
async def cluster_of() -> AsyncIterator[Callable[..., Cluster]]:
    """Creates clients with short timeouts: `cluster_of(kafka)`. Closes them afterwards."""
    made: list[Cluster] = []

    def make(kafka: TinyKafka | list[tuple[str, int]], **arguments) -> Cluster:
        bootstrap = kafka if isinstance(kafka, list) else kafka.bootstrap
        options = {
            "request_timeout": 5.0,
            "connect_timeout": 2.0,
            "reconnect_backoff": 0.001,
            "reconnect_backoff_max": 0.01,
            **arguments.pop("options", {}),
        }
        arguments = {"retry_backoff": 0.01, "retry_backoff_max": 0.02, **arguments}
        made.append(Cluster(bootstrap, ConnectionOptions(**options), **arguments))
        return made[-1]

    yield make
    for cluster in made:
        await cluster.close(soon())
    left = [t for t in asyncio.all_tasks() if t.get_name().startswith("cluster: ")]
    assert not left, f"tasks outlived their cluster: {left}"


@pytest.fixture
async def task_owner() -> AsyncIterator[TaskOwner]:
    """Owns a test's tasks; fails the test if one of them failed."""
    errors: list[BaseException] = []
    owner = TaskOwner("test", lambda name, error: errors.append(error))
    yield owner
    await owner.close(soon())
    assert not errors


def soon(seconds: float = 5.0) -> float:
    """A deadline that a passing test never reaches."""
    return asyncio.get_running_loop().time() + seconds


@pytest.fixture(name="soon")
def soon_fixture() -> Callable[..., float]:
    return soon


@pytest.fixture
def until() -> Callable[..., Awaitable[None]]:
    """Waits for a condition: `await until(lambda: broker.received)`."""

    async def wait(condition: Callable[[], object], seconds: float = 5.0) -> None:
        deadline = soon(seconds)
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, "it did not come about"
            await asyncio.sleep(0.002)

    return wait


@pytest.fixture
def dead_address():
    """An address without a listener."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()
