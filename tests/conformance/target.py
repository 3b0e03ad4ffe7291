"""A broker or cluster for a scenario: named connections, and the transcript of their requests.

A scenario runs once on the embedded broker and once on a real Kafka, each time with its own
`Target`. The names that it creates are the same on both.
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from aiokafka_lite.errors import for_code
from aiokafka_lite.protocol.framing import decode_response, encode_request
from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from aiokafka_lite.protocol.messages.find_coordinator import FindCoordinatorRequest
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.conformance.facts import Fact, Facts

__all__ = ["ConnectionEnded", "Scenario", "Step", "Target"]

PATIENCE: Final = 30.0  # seconds for one response, and for a condition
PAUSE: Final = 0.02  # seconds between two tries

Scenario = Callable[["Target"], Awaitable[None]]


class ConnectionEnded(ConnectionError):
    """The broker closed the connection instead of responding; this is in the transcript, too."""


class Step(NamedTuple):
    """One line of a transcript.

    Attributes:
        label: The API and its version, or the subject of a note.
        asked: The request, for failure messages.
        facts: The response as facts.
    """

    label: str
    asked: str
    facts: Fact


class _Connection:
    """One connection; requests on it are answered one after another."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._correlation_ids = itertools.count(1)
        self._lock = asyncio.Lock()

    async def ask(self, address: str, request: Request, version: int) -> Any:
        async with self._lock:
            if self._streams is None:
                host, _, port = address.rpartition(":")
                self._streams = await asyncio.open_connection(host, int(port))
            reader, writer = self._streams
            sent = next(self._correlation_ids)
            writer.write(encode_request(request, version, sent, self.client_id))
            try:
                length = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(length)
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                self.close()
                raise ConnectionEnded(f"{request.name} v{version} was not answered") from error
            except (
                BaseException
            ):  # a response may still arrive, which must not match a later request
                self.close()
                raise
        correlation_id, response = decode_response(frame, type(request), version)
        assert correlation_id == sent
        return response

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


class Target:
    """A cluster to compare.

    Connections are named: `on="main"` is opened on first use, to the first broker, with its
    name as the client id; `on="main@2"` is one to broker 2.

    Args:
        kind: "embedded" or "Kafka", for failures.
        bootstrap: `host:port` of its brokers, with commas between.
        suffix: Makes names unique; the same for both targets of a comparison.
        kill: Ends a broker at once.
        restart: Starts it again.

    Attributes:
        steps: The transcript so far.
    """

    def __init__(
        self,
        kind: str,
        bootstrap: str,
        suffix: str,
        *,
        kill: Callable[[int], Awaitable[None]] | None = None,
        restart: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self.kind = kind
        self.bootstrap = bootstrap
        self.steps: list[Step] = []
        self._suffix = suffix
        self._kill = kill
        self._restart = restart
        self._facts = Facts()
        self._names: dict[str, itertools.count[int]] = defaultdict(lambda: itertools.count(1))
        self._connections: dict[str, _Connection] = {}
        self._started: dict[asyncio.Task[Any], tuple[Request, int]] = {}
        self._addresses: dict[int, str] = {}

    # Requests

    async def ask(self, request: Request, version: int, on: str = "main") -> Any:
        """Send a request and record the response in the transcript.

        Raises:
            ConnectionEnded: The broker closed the connection, which is recorded, too.
            TimeoutError: There was no response in half a minute.
        """
        return await self._noted(request, version, self.quietly(request, version, on))

    async def quietly(self, request: Request, version: int, on: str = "main") -> Any:
        """Send a request without recording its response."""
        name, _, node = on.partition("@")
        address = self.bootstrap.split(",")[0]
        if node:
            address = await self._address(int(node))
        connection = self._connections.setdefault(on, _Connection(name))
        async with asyncio.timeout(PATIENCE):
            return await connection.ask(address, request, version)

    async def until(
        self, request: Request, version: int, accept: Callable[[Any], bool], on: str = "main"
    ) -> Any:
        """Repeat a request until `accept` returns True; record only the last response.

        Raises:
            TimeoutError: It never did; the last response is recorded.
        """
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            response = await self.quietly(request, version, on)
            accepted = accept(response)
            if accepted or asyncio.get_running_loop().time() > deadline:
                self._enter(request, version, response)
                if not accepted:
                    raise TimeoutError(f"{self.kind} still answers {response!r}")
                return response
            await asyncio.sleep(PAUSE)

    def start(self, request: Request, version: int, on: str) -> asyncio.Task[Any]:
        """Send a request whose response may take long (JoinGroup); `settle` waits for it.

        Until the response arrives, `on` cannot be used for another request.
        """
        task = asyncio.ensure_future(self.quietly(request, version, on))
        self._started[task] = (request, version)
        return task

    async def settle(self, task: asyncio.Task[Any]) -> Any:
        """Wait for the response to a started request, and record it."""
        request, version = self._started.pop(task)
        return await self._noted(request, version, task)

    async def waits(self, task: asyncio.Task[Any], seconds: float = 0.3) -> None:
        """Record if a started request is still unanswered after some time."""
        request, version = self._started[task]
        await asyncio.wait([task], timeout=seconds)
        self.note(f"{request.name} v{version} waits", not task.done())

    def disconnect(self, on: str) -> None:
        """Abort a connection, as a killed client does; the next use opens a new one."""
        connection = self._connections.pop(on, None)
        if connection is not None:
            connection.close()

    # The transcript

    def note(self, label: str, value: object) -> None:
        """Record a finding of the scenario; lists have any order, tuples their own."""
        self.steps.append(Step(label, "", self._facts.of(value, label)))

    async def _noted(self, request: Request, version: int, answer: Awaitable[Any]) -> Any:
        try:
            response = await answer
        except ConnectionEnded:
            self._enter(request, version, "the connection was cut")
            raise
        except TimeoutError:
            self._enter(request, version, f"no answer in {PATIENCE:.0f} s")
            raise
        self._enter(request, version, response)
        return response

    def _enter(self, request: Request, version: int, answer: object) -> None:
        label = f"{request.name} v{version}"
        self.steps.append(Step(label, repr(request), self._facts.of(answer)))

    # Names and topics

    def unique(self, prefix: str) -> str:
        """A new name, the same on both targets."""
        return f"{prefix}-{self._suffix}-{next(self._names[prefix])}"

    async def topic(self, partitions: int = 1, **configs: object) -> str:
        """Create a topic and wait until every broker knows it and every leader serves it, without
        recording.

        Raises:
            BrokerResponseError: It could not be created.
        """
        name = self.unique("topic")
        settings = [CreatableTopicConfig(key, str(value)) for key, value in configs.items()]
        wanted = CreatableTopic(name, partitions, -1, [], settings)
        request = CreateTopicsRequest([wanted], timeout_ms=20_000)
        (created,) = (await self.quietly(request, 5, "topics")).topics
        if created.error_code:
            raise for_code(created.error_code)(created.error_message or "")
        for partition in range(partitions):
            await self._await_leader(name, partition)
        await self.known_everywhere(name, partitions)
        return name

    async def known_everywhere(self, topic: str, partitions: int = 1) -> None:
        """Wait until every broker knows a topic and its leaders, without recording.

        Each learns of it in its own time, and until then answers that there is no such topic.
        """
        brokers = (await self.quietly(MetadataRequest([]), 9, "topics")).brokers
        request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
        async with asyncio.timeout(PATIENCE):
            for broker in brokers if len(brokers) > 1 else ():
                while True:
                    answer = await self.quietly(request, 9, f"topics@{broker.node_id}")
                    leaders = [each.leader_id for each in answer.topics[0].partitions]
                    if len(leaders) == partitions and min(leaders) >= 0:
                        break
                    await asyncio.sleep(PAUSE)

    async def published(self) -> None:
        """Wait until all changes so far are in force on the first broker, without recording.

        Kafka answers a change before the broker applies it. It applies one batch of changes after
        the other, and shows a topic before it applies the rest of the topic's batch: so the second
        of two topics shows that everything before the first one is in force.
        """
        for _ in range(2):
            name = self.unique("later")
            request = CreateTopicsRequest([CreatableTopic(name, 1, -1)], timeout_ms=20_000)
            (created,) = (await self.quietly(request, 5, "topics")).topics
            assert not created.error_code, created
            async with asyncio.timeout(PATIENCE):
                while await self.leader_of(name, 0) < 0:
                    await asyncio.sleep(PAUSE)

    async def leader_of(self, topic: str, partition: int) -> int:
        """The node id of a partition's leader, -1 if there is none; not recorded."""
        request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
        (answer,) = (await self.quietly(request, 9, "topics")).topics
        for described in answer.partitions:
            if described.partition_index == partition:
                return int(described.leader_id)
        return -1

    async def coordinator_of(self, key: str, key_type: int = 0) -> int:
        """The node id of a key's coordinator (0 group, 1 transaction), once there is one.

        The first request of a run makes Kafka create the internal topic.
        """
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        async with asyncio.timeout(PATIENCE):
            while True:
                (found,) = (await self.quietly(request, 4, "topics")).coordinators
                if not found.error_code:
                    return int(found.node_id)
                await asyncio.sleep(PAUSE)

    # Brokers, if the comparison has several

    async def kill(self, node_id: int) -> None:
        """Kill a broker."""
        assert self._kill is not None, "only compare3 has brokers to kill"
        await self._kill(node_id)

    async def restart(self, node_id: int) -> None:
        """Restart a killed broker."""
        assert self._restart is not None, "only compare3 has brokers to start"
        await self._restart(node_id)

    async def close(self) -> None:
        """Cancel started requests and close all connections."""
        for task in self._started:
            task.cancel()
        await asyncio.gather(*self._started, return_exceptions=True)
        for connection in self._connections.values():
            connection.close()

    async def _address(self, node_id: int) -> str:
        if node_id not in self._addresses:
            response = await self.quietly(MetadataRequest([]), 9, "topics")
            self._addresses = {b.node_id: f"{b.host}:{b.port}" for b in response.brokers}
        return self._addresses[node_id]

    async def _await_leader(self, topic: str, partition: int) -> None:
        """Wait until a leader serves, because metadata lists it before it has become the leader."""
        wanted = [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=-1)])]
        async with asyncio.timeout(PATIENCE):
            while True:
                leader = await self.leader_of(topic, partition)
                if leader >= 0:
                    request = ListOffsetsRequest(-1, topics=wanted)
                    response = await self.quietly(request, 5, f"topics@{leader}")
                    if not response.topics[0].partitions[0].error_code:
                        return
                await asyncio.sleep(PAUSE)
