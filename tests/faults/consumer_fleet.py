"""The processes of a consumers' chaos run, and their faults: a stage."""

import asyncio
import heapq
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.faults.consumer_journal import Event, Place, Verb, follow, read
from tests.faults.consumer_ledger import Interruption
from tests.faults.consumer_worker import MemberPlan, Plan
from tools.kafka.process import Child

__all__ = ["FLEET_FAULTS", "Fleet", "lagging", "member_plans"]

FLEET_FAULTS = ("kill_members", "freeze_members", "bounce_members", "end_members")
END = 40.0  # seconds that a process may take to end cleanly on a busy machine
MEMBERS = 2  # of a process


def member_plans(process: int) -> list[MemberPlan]:
    """The members of a process: each reads in a different way; those of process 2 commit by the
    timer, those of process 3 are static."""
    ways = ["lists", "impatient", "records", "lists", "records", "lists", "lists", "records"]
    plans = []
    for number in range(MEMBERS):
        name = f"p{process}.m{number}"
        reads = ways[(process * MEMBERS + number) % len(ways)]
        plans.append(MemberPlan(name, reads, process == 2, name if process == 3 else None))
    return plans


class Fleet:
    """Four processes with two members each.

    Args:
        plan: The plan of each process, except client, journal, members and seed.
        folder: For their files.
        seed: The seed of their own actions.
        clients: Packages that they use in turn.

    Attributes:
        plans: One a process.
        interruptions: So far.
        seen: Partition to the offset after the last one that any member was given; `look` continues
        there.
    """

    def __init__(
        self, plan: Plan, folder: Path, seed: int, clients: Sequence[str], processes: int = 4
    ) -> None:
        self._folder = folder
        self.plans = [
            replace(
                plan,
                client=clients[number % len(clients)],
                journal=str(folder / f"{plan.group}-{number}.journal"),
                members=member_plans(number),
                seed=f"{seed} {number} {'odd' if number % 2 else 'even'}",
            )
            for number in range(processes)
        ]
        self.interruptions: list[Interruption] = []
        self.seen: dict[Place, int] = {}
        self._children: dict[int, Child] = {}
        self._journals: list[Iterator[list[Event]]] = [
            follow(Path(each.journal)) for each in self.plans
        ]

    @property
    def nodes(self) -> range:
        return range(len(self.plans))

    @property
    def static(self) -> set[str]:
        """Names of the static members."""
        return {each.name for plan in self.plans for each in plan.members if each.instance}

    def start(self) -> None:
        for number in self.nodes:
            self._launch(number)

    async def end(self) -> None:
        """Send SIGTERM to all; they leave their group cleanly.

        Raises:
            AssertionError: A process did not end, or failed.
        """
        await asyncio.gather(*(self._end(number) for number in self.nodes))
        self.look()

    def kill_all(self) -> None:
        """Kill all remaining processes."""
        for child in self._children.values():
            child.kill()

    def look(self) -> None:
        """Read new journal entries."""
        for journal in self._journals:
            while events := next(journal):
                for event in events:
                    if event.verb is Verb.GIVEN:
                        for place, (_, last) in event.spread.items():
                            self.seen[place] = max(self.seen.get(place, 0), last + 1)

    def events(self) -> Iterator[Event]:
        """All journal entries, by time."""
        return heapq.merge(*(read(Path(plan.journal)) for plan in self.plans))

    def logs(self) -> str:
        """The last output of all processes."""
        return "\n".join(
            f"--- process {number}\n{child.tail(60)}" for number, child in self._children.items()
        )

    # --- faults

    async def kill_members(self, node: int, seconds: float) -> None:
        """Send SIGKILL; restart later, before or after the session timeout."""
        self._kill(node)
        await asyncio.sleep(seconds)
        self._launch(node)

    async def bounce_members(self, node: int, seconds: float) -> None:
        """Send SIGKILL and restart at once: static members resume their membership."""
        self._kill(node)
        self._launch(node)
        await asyncio.sleep(0)

    async def freeze_members(self, node: int, seconds: float) -> None:
        """Send SIGSTOP for longer than the session timeout, then SIGCONT."""
        process, begin = f"p{node}", time.monotonic_ns()
        self._children[node].pause()
        try:
            await asyncio.sleep(self.plans[node].session * 1.3)
        finally:
            self._children[node].resume()
            # After it continues, it needs two heartbeats to notice.
            end = time.monotonic_ns() + int(self.plans[node].session / 4 * 1e9)
            self.interruptions.append(Interruption(process, begin, end))

    async def end_members(self, node: int, seconds: float) -> None:
        """Send SIGTERM: they leave cleanly; then restart."""
        await self._end(node)
        await asyncio.sleep(seconds / 4)
        self._launch(node)

    def _kill(self, node: int) -> None:
        self.interruptions.append(Interruption(f"p{node}", time.monotonic_ns()))
        self._children[node].kill()

    def _launch(self, node: int) -> None:
        plan = self.plans[node]
        path = self._folder / f"{plan.group}-{node}.json"
        plan.write(path)
        command = [sys.executable, "-m", "tests.faults.consumer_worker", str(path)]
        self._children[node] = Child(command, self._folder / f"{plan.group}-{node}.log")

    async def _end(self, node: int) -> None:
        child = self._children[node]
        in_order = await asyncio.to_thread(child.terminate, END)
        assert in_order, f"process {node} did not end within {END:.0f} s\n{child.tail(60)}"
        status = child.exit_status
        # It may have received SIGTERM before it had a handler.
        assert status in (0, -signal.SIGTERM), (
            f"process {node} ended with {status}\n{child.tail(60)}"
        )


def lagging(ends: dict[Place, int], seen: dict[Place, int]) -> Sequence[str]:
    """A description of the partitions that are not read to their ends."""
    return [
        f"{topic}-{partition}: {seen.get((topic, partition), 0)} of {end}"
        for (topic, partition), end in sorted(ends.items())
        if seen.get((topic, partition), 0) < end
    ]
