"""A minimal driver of the classic state machine for a real broker; for tests only."""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka_lite.errors import KafkaConnectionError, KafkaError, for_code
from aiokafka_lite.group.assignment_data import subscribed_topics
from aiokafka_lite.group.assignors.interface import LeadingAssignor
from aiokafka_lite.group.classic.machine import ClassicMembership, ClassicState
from aiokafka_lite.group.membership import (
    FIND_COORDINATOR,
    Assign,
    Elect,
    Fail,
    FindCoordinator,
    Lost,
    MembershipOptions,
    Revoke,
    Send,
    Step,
    TopicLayout,
)
from aiokafka_lite.protocol.messages.find_coordinator import FindCoordinatorRequest
from aiokafka_lite.structs import TopicPartition
from tests.unit.testing.raw import RawClient

VERSIONS = {"JoinGroup": 9, "SyncGroup": 5, "Heartbeat": 4, "LeaveGroup": 5}


async def find_coordinator(address: str, group_id: str) -> KafkaError | None:
    """There is one broker, but it creates the coordinators' topics only on request."""
    try:
        client = await RawClient.connect(address)
        answer = await client.ask(FindCoordinatorRequest(key=group_id), 0)
        await client.close()
    except (ConnectionError, asyncio.IncompleteReadError) as error:
        return KafkaConnectionError(str(error))
    return for_code(answer.error_code)(group_id) if answer.error_code else None


class RealDriver:
    """One member of a group on a real broker of one node.

    Attributes:
        versions: The versions of its requests; by default the newest.
        steps: All its requests.
        history: (generation, owned partitions) after each change.
    """

    def __init__(
        self,
        address: str,
        group_id: str,
        assignor: LeadingAssignor,
        layouts: Mapping[str, TopicLayout],
        *,
        versions: Mapping[str, int] = VERSIONS,
        topics: frozenset[str] | None = None,
        **options: Any,
    ) -> None:
        options.setdefault("session_timeout", 6.0)
        options.setdefault("heartbeat_interval", 0.3)
        self.machine = ClassicMembership(MembershipOptions(group_id, **options), [assignor])
        self.versions = versions
        self.steps: list[Step] = []
        self.failures: list[KafkaError] = []
        self.held: frozenset[TopicPartition] = frozenset()
        self.history: list[tuple[int, frozenset[TopicPartition]]] = []
        self.listener_time = 0.0
        self._address = address
        self._assignor = assignor
        self._layouts = layouts
        self._clients: dict[str, RawClient] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.machine.on_metadata(layouts, self.now)
        self.machine.on_subscription(topics or frozenset(layouts), self.now)
        self._task = asyncio.create_task(self._run())

    @property
    def now(self) -> float:
        return self._loop.time()

    @property
    def stable(self) -> bool:
        return self.machine.state is ClassicState.STABLE and not self.machine.rejoin_needed

    def wake(self) -> None:
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            while (step := self.machine.next_step(self.now)) is not None:
                self.steps.append(step)
                self._begin(step)
            if self.machine.closed:
                return
            at = self.machine.next_wakeup(self.now)
            try:
                async with asyncio.timeout_at(at):
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
            case Revoke() | Lost():
                self.held -= step.partitions
                self._spawn(
                    self._listen(machine.on_lost if isinstance(step, Lost) else machine.on_revoked)
                )
            case Assign():
                self.held = step.all
                self._spawn(self._listen(machine.on_assigned))
            case Elect():
                topics = subscribed_topics(member.subscription for member in step.members)
                shares = {} if step.skip else self._assignor.assign(step.members, self._layouts)
                machine.on_elected(shares, self.now, topics)
            case Fail():
                self.failures.append(step.error)
        self.history.append((machine.generation, self.held))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _listen(self, through: Any) -> None:
        await asyncio.sleep(self.listener_time)
        through(self.now)
        self.wake()

    async def _ask(self, step: Send) -> None:
        version = self.versions[step.kind]
        try:
            client = self._clients.get(step.kind)
            if client is None:  # one for each kind, so that none blocks another
                client = self._clients[step.kind] = await RawClient.connect(self._address)
            answer = await client.ask(step.request_for(version), version)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            self._clients.pop(step.kind, None)
            self.machine.on_error(step.kind, KafkaConnectionError(str(error)), self.now)
        else:
            self.machine.on_response(step.kind, answer, self.now)
        self.wake()

    async def _find(self) -> None:
        error = await find_coordinator(self._address, self.machine.options.group_id)
        if error is None:
            self.machine.on_coordinator(self.now)
        else:
            self.machine.on_error(FIND_COORDINATOR, error, self.now)
        self.wake()

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
        self.held = frozenset()

    async def close(self, stay: bool | None = None) -> None:
        self.machine.close(self.now, stay)
        self.wake()
        await asyncio.wait_for(self._task, 20)
        await self.die()
