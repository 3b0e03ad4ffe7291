"""The processes of a share group's chaos run, their faults, and the watch of the leaders, which
explains the locks that brokers lost."""

import asyncio
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from aiokafka_lite import AIOKafkaAdminClient
from aiokafka_lite.errors import KafkaError
from tests.faults.consumer_journal import Event, Verb, follow
from tests.faults.share_journal import read_entries
from tests.faults.share_ledger import Causes, stalls
from tests.faults.share_worker import WAYS, SharePlan
from tools.kafka.process import Child

__all__ = ["SHARE_FLEET_FAULTS", "LeaderWatch", "ShareFleet"]

SHARE_FLEET_FAULTS = ("kill_members", "freeze_members", "bounce_members", "end_members")
END = 60.0  # seconds that a process may take to end cleanly on a busy machine
MEMBERS = 2  # of a process
LOOK_EVERY = 0.5  # seconds between two checks of the leaders
SLACK = 10_000_000_000  # nanoseconds: how long brokers and clients take to notice a new leader
SECOND = 1_000_000_000
SLOW = 2 * SECOND  # for a check of the leaders


class ShareFleet:
    """Four processes with two members each.

    Args:
        plan: The plan of each process, except the journals, the members and the seed.
        folder: For their files.
        seed: The seed of their own actions.

    Attributes:
        journals: The journals of records, one for each process that was started.
        words: The text events so far.
        moved: Member to the time (of the monotonic clock, seconds) of its latest record.
    """

    def __init__(self, plan: SharePlan, folder: Path, seed: int, processes: int = 4) -> None:
        self._folder = folder
        self._plan, self._seed = plan, seed
        self.nodes = range(processes)
        self.journals: list[Path] = []
        self.words: list[Event] = []
        self.moved: dict[str, float] = {}
        self.killed: dict[int, int] = {}
        self.stopped: dict[int, list[tuple[int, int]]] = {}
        self._current: dict[int, int] = {}
        self._children: dict[int, Child] = {}
        self._followed: list[Iterator[list[Event]]] = [
            follow(self._words_of(node)) for node in self.nodes
        ]

    @property
    def members(self) -> list[str]:
        """The names of all members."""
        return [name for node in self.nodes for name, _ in self._members(node)]

    def start(self) -> None:
        for node in self.nodes:
            self._launch(node)

    async def end(self) -> None:
        """Send SIGTERM to all; they leave their group cleanly.

        Raises:
            AssertionError: A process did not end, or failed.
        """
        await asyncio.gather(*(self._end(node) for node in self.nodes))
        self.look()

    async def dump(self) -> str:
        """The state of the members, from the last output of their processes."""
        for child in self._children.values():
            os.kill(child.pid, signal.SIGUSR1)
        await asyncio.sleep(2)
        return self.logs()

    def kill_all(self) -> None:
        """Kill all remaining processes."""
        for child in self._children.values():
            child.kill()

    def look(self) -> None:
        """Read new text events."""
        for journal in self._followed:
            while events := next(journal):
                self.words += events
                for event in events:
                    if event.verb is Verb.GIVEN:
                        moved = self.moved.get(event.member, 0.0)
                        self.moved[event.member] = max(moved, event.time / SECOND)

    def causes(self, lock: float) -> Causes:
        """What happened to the processes, and their own silence."""
        stopped = {
            index: [*self.stopped.get(index, ()), *stalls(read_entries(path))]
            for index, path in enumerate(self.journals)
        }
        return Causes(int(lock * SECOND), self.killed, stopped)

    def logs(self) -> str:
        """The last output of all processes."""
        return "\n".join(
            f"--- process {node}\n{child.tail(60)}" for node, child in self._children.items()
        )

    # --- faults

    async def kill_members(self, node: int, seconds: float) -> None:
        """Send SIGKILL; restart later."""
        self._kill(node)
        await asyncio.sleep(seconds)
        self._launch(node)

    async def bounce_members(self, node: int, seconds: float) -> None:
        """Send SIGKILL and restart at once."""
        self._kill(node)
        self._launch(node)
        await asyncio.sleep(0)

    async def freeze_members(self, node: int, seconds: float) -> None:
        """Send SIGSTOP for longer than the locks last, then SIGCONT."""
        begin = time.monotonic_ns()
        self._children[node].pause()
        try:
            await asyncio.sleep(self._plan.lock * 1.3)
        finally:
            self._children[node].resume()
            found = self.stopped.setdefault(self._current[node], [])
            found.append((begin, time.monotonic_ns()))

    async def end_members(self, node: int, seconds: float) -> None:
        """Send SIGTERM: they leave cleanly; then restart."""
        await self._end(node)
        await asyncio.sleep(seconds / 4)
        self._launch(node)

    def _kill(self, node: int) -> None:
        self.killed[self._current[node]] = time.monotonic_ns()
        self._children[node].kill()

    def _members(self, node: int) -> list[tuple[str, str]]:
        return [
            (f"p{node}.{way}", way)
            for way in (WAYS[(node + number * len(self.nodes)) % len(WAYS)] for number in range(2))
        ]

    def _words_of(self, node: int) -> Path:
        return self._folder / f"{self._plan.group}-{node}.words"

    def _launch(self, node: int) -> None:
        index = self._current[node] = len(self.journals)
        name = f"{self._plan.group}-{node}"
        plan = replace(
            self._plan,
            journal=str(self._folder / f"{name}-{index}.journal"),
            words=str(self._words_of(node)),
            members=self._members(node),
            seed=f"{self._seed} {index} {'odd' if node % 2 else 'even'}",
        )
        path = self._folder / f"{name}.json"
        plan.write(path)
        Path(plan.journal).touch()
        self.journals.append(Path(plan.journal))
        command = [sys.executable, "-m", "tests.faults.share_worker", str(path)]
        self._children[node] = Child(command, self._folder / f"{name}.log")

    async def _end(self, node: int) -> None:
        child = self._children[node]
        in_order = await asyncio.to_thread(child.terminate, END)
        assert in_order, f"process {node} did not end within {END:.0f} s\n{child.tail(60)}"
        status = child.exit_status
        # It may have received SIGTERM before it had a handler.
        assert status in (0, -signal.SIGTERM), (
            f"process {node} ended with {status}\n{child.tail(60)}"
        )


class LeaderWatch:
    """Repeatedly checks the leaders of topics.

    Args:
        topics: In the order of their indexes in places.
    """

    def __init__(self, bootstrap_servers: str, topics: Sequence[str]) -> None:
        self._servers, self._topics = bootstrap_servers, topics
        self._seen: dict[int, list[tuple[int, int]]] = {}
        self._troubles: list[tuple[int, int, int]] = []

    def on_trouble(self, node: int, begin: int, end: int) -> None:
        """A broker had a fault; -1: any may have had one."""
        self._troubles.append((node, begin, end))

    async def run(self) -> None:
        """Until cancelled."""
        async with AIOKafkaAdminClient(
            bootstrap_servers=self._servers, client_id="watch", request_timeout_ms=5000
        ) as admin:
            while True:
                began = time.monotonic_ns()
                try:
                    found = await admin.describe_topics(list(self._topics))
                except KafkaError:
                    found = []  # another check follows
                now = time.monotonic_ns()
                if now - began > SLOW or not found:
                    self.on_trouble(-1, began, now)  # a broker, or the whole machine, is busy
                for topic in found:
                    for partition in topic["partitions"]:
                        place = 1000 * self._topics.index(topic["topic"]) + partition["partition"]
                        self._seen.setdefault(place, []).append((now, partition["leader"]))
                await asyncio.sleep(LOOK_EVERY)

    def explain(self, causes: Causes) -> Causes:
        """Add the times at which brokers had faults, and at which leaders moved."""
        places = {place: list(self._intervals(seen)) for place, seen in self._seen.items()}
        cluster = [(begin, end + SLACK) for _, begin, end in self._troubles]
        return replace(causes, places=places, cluster=cluster)

    def _intervals(self, seen: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        for (before, old), (after, new) in itertools.pairwise(seen):
            if old != new:
                yield before - SLACK, after + SLACK
        for node, begin, end in self._troubles:
            if any(leader == node and begin - SLACK <= at <= end for at, leader in seen):
                yield begin, end + SLACK
