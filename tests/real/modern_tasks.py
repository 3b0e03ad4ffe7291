"""A minimal driver of the consumer protocol's state machine for a real broker; for tests only."""

import asyncio
from typing import Any

from aiokafka_lite.errors import KafkaConnectionError, KafkaError
from aiokafka_lite.group.consumer.machine import ConsumerMembership, MemberState
from aiokafka_lite.group.membership import (
    FIND_COORDINATOR,
    Assign,
    Fail,
    FindCoordinator,
    Lost,
    MembershipOptions,
    Revoke,
    Send,
    Step,
    TopicLayout,
)
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokafka_lite.structs import TopicPartition
from tests.real.classic_tasks import find_coordinator
from tests.unit.testing.raw import RawClient

METADATA_VERSION = 12  # topics by id


class RealMember:
    """One member of a group on a real broker of one node.

    Attributes:
        version: The version of its heartbeats.
        steps: All its steps.
        sent: Its requests.
    """

    def __init__(self, address: str, group_id: str, version: int = 1, **options: Any) -> None:
        self.machine = ConsumerMembership(MembershipOptions(group_id, **options))
        self.version = version
        self.steps: list[Step] = []
        self.sent: list[Any] = []
        self.failures: list[KafkaError] = []
        self.listener_time = 0.0
        self._address = address
        self._clients: dict[str, RawClient] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._resolving = False
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run())

    @property
    def now(self) -> float:
        return self._loop.time()

    @property
    def held(self) -> frozenset[TopicPartition]:
        return self.machine.assignment

    @property
    def stable(self) -> bool:
        return self.machine.state is MemberState.STABLE

    def kinds(self) -> list[str]:
        """A short form of the calls to the application."""
        told = (Assign, Revoke, Lost, Fail)
        return [type(step).__name__ for step in self.steps if isinstance(step, told)]

    def subscribe(self, *topics: str, pattern: str | None = None) -> None:
        self.machine.on_subscription(topics, self.now, pattern=pattern)
        self._wake.set()

    def leave(self) -> None:
        self.machine.leave("a test says so", self.now)
        self._wake.set()

    async def _run(self) -> None:
        while not self.machine.closed:
            self._wake.clear()
            while (step := self.machine.next_step(self.now)) is not None:
                self.steps.append(step)
                self._begin(step)
            if self.machine.unresolved_topic_ids and not self._resolving:
                self._resolving = True
                self._spawn(self._resolve())
            try:
                async with asyncio.timeout_at(self.machine.next_wakeup(self.now)):
                    await self._wake.wait()
            except TimeoutError:
                pass  # the machine's timer has fired

    def _begin(self, step: Step) -> None:
        machine = self.machine
        match step:
            case Send():
                self._spawn(self._ask(step))
            case FindCoordinator():
                self._spawn(self._find())
            case Revoke():
                self._spawn(self._listen(machine.on_revoked))
            case Lost():
                self._spawn(self._listen(machine.on_lost))
            case Assign():
                self._spawn(self._listen(machine.on_assigned))
            case Fail():
                self.failures.append(step.error)
            case _:
                raise AssertionError(f"unexpected {step}")

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _listen(self, through: Any) -> None:
        await asyncio.sleep(self.listener_time)
        through(self.now)
        self._wake.set()

    async def _client(self, kind: str) -> RawClient:
        client = self._clients.get(kind)
        if client is None:
            client = self._clients[kind] = await RawClient.connect(self._address)
        return client

    async def _ask(self, step: Send) -> None:
        request = step.request_for(self.version)
        self.sent.append(request)
        try:
            answer = await (await self._client(step.kind)).ask(request, self.version)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            self._clients.pop(step.kind, None)
            self.machine.on_error(step.kind, KafkaConnectionError(str(error)), self.now)
        else:
            self.machine.on_response(step.kind, answer, self.now)
        self._wake.set()

    async def _find(self) -> None:
        error = await find_coordinator(self._address, self.machine.options.group_id)
        if error is None:
            self.machine.on_coordinator(self.now)
        else:
            self.machine.on_error(FIND_COORDINATOR, error, self.now)
        self._wake.set()

    async def _resolve(self) -> None:
        """As a consumer does: names by id, for these topics only."""
        topics = [MetadataRequestTopic(one, None) for one in self.machine.unresolved_topic_ids]
        request = MetadataRequest(topics, allow_auto_topic_creation=False)
        answer = await (await self._client("Metadata")).ask(request, METADATA_VERSION)
        layouts = {
            topic.name: TopicLayout(len(topic.partitions), topic_id=topic.topic_id)
            for topic in answer.topics
            if not topic.error_code
        }
        self.machine.on_metadata(layouts, self.now)
        await asyncio.sleep(0.1)
        self._resolving = False
        self._wake.set()

    async def cut(self) -> None:
        """Close all its connections."""
        for client in list(self._clients.values()):
            await client.close()

    async def die(self) -> None:
        """Stop as with SIGKILL: nothing is sent."""
        self._task.cancel()
        for task in [self._task, *self._asking]:
            task.cancel()
        await asyncio.gather(self._task, *self._asking, return_exceptions=True)
        await self.cut()

    async def close(self, stay: bool | None = None) -> None:
        self.machine.close(self.now, stay)
        self._wake.set()
        await asyncio.wait_for(self._task, 20)
        await self.die()
