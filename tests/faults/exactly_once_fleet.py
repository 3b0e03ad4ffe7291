"""The processes of the judged exactly-once run, their faults, and the load: a stage like those of
`stages`."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.producer.batching.accumulator import Ack
from tests.faults.exactly_once_ledger import Transactions
from tests.faults.exactly_once_processor import FENCED, Plan
from tools.kafka.process import Child

__all__ = ["FLEET_FAULTS", "ProcessorFleet", "write_numbers"]

FLEET_FAULTS: Final = (
    *("kill_process", "supersede", "bounce_process"),
    *("kill_process", "freeze_process", "end_process"),
)
_LOOK: Final = 0.2  # seconds between two checks of the processes
_READY: Final = 60.0  # seconds that a process may take until it reads, on a busy machine
_END: Final = 60.0  # seconds that a process may take to end cleanly
_AT_ONCE: Final = 20  # rounds of the load in flight


@dataclass
class _Slot:
    """A transactional id and its current process.

    Attributes:
        launches: Processes so far.
        child: The one that has it; None while one is being replaced.
    """

    launches: int = 0
    child: Child | None = None
    plan: Plan | None = None


class ProcessorFleet:
    """The requested number of transactional ids, a process for each, and successors for these.

    Args:
        plan: The plan of each process, except names, seed and journal.
        folder: For their files.
        count: Of transactional ids.

    Attributes:
        events: The faults and their results.
        zombies: Processes that were replaced while they were stopped.
    """

    def __init__(self, plan: Plan, folder: Path, count: int) -> None:
        self._plan = plan
        self._folder = folder
        self._slots = [_Slot() for _ in range(count)]
        self.events: Counter[str] = Counter()
        self.zombies: list[tuple[Child, Plan, int]] = []  # and what it had reported before
        self._journals: dict[str, Path] = {}

    @property
    def nodes(self) -> range:
        return range(len(self._slots))

    def start(self) -> None:
        for number in self.nodes:
            self._launch(number)

    async def tend(self, end: asyncio.Event) -> None:
        """Until the end, start a successor for each process that ended by itself, which only fenced
        ones may.

        Raises:
            AssertionError: Another process did.
        """
        while not end.is_set():
            for number, slot in enumerate(self._slots):
                if slot.child is not None and (status := slot.child.exit_status) is not None:
                    assert status == FENCED, self._last_words(slot.child, f"ended with {status}")
                    self.events["fenced, and launched again"] += 1
                    self._launch(number)
            await asyncio.sleep(_LOOK)

    async def end(self) -> None:
        """SIGTERM for all.

        Raises:
            AssertionError: A process does not end, or fails; or a zombie committed a transaction.
        """
        children = [slot.child for slot in self._slots if slot.child is not None]
        zombies = [child for child, _, _ in self.zombies]
        await asyncio.gather(
            *(asyncio.to_thread(child.terminate, _END) for child in (*children, *zombies))
        )
        for child in children:
            status = child.exit_status  # -SIGTERM: it had no handler yet
            assert status in (0, FENCED, -15), self._last_words(child, f"ended with {status}")
        for child, plan, told in self.zombies:
            status = child.exit_status
            before, after = _told(plan)[:told].splitlines(), _told(plan)[told:].splitlines()
            # Without a producer when it was stopped, or with a new one since, it is not a zombie:
            # it has fenced its successor.
            lives = [line.split()[0] for line in before if line.startswith(("ready", "anew"))]
            first = next((line for line in after if line.startswith(("anew", "commits"))), "")
            if lives[-1:] != ["ready"] or first.startswith("anew"):
                self.events["superseded ones that began anew"] += 1
                continue
            assert status == FENCED or (status == 0 and not first), self._last_words(
                child, f"was superseded, and ended with {status}"
            )
            self.events["zombies fenced" if status == FENCED else "zombies that did nothing"] += 1

    def kill_all(self) -> None:
        """Kill all remaining processes."""
        for child in [
            *(slot.child for slot in self._slots),
            *(each for each, _, _ in self.zombies),
        ]:
            if child is not None:
                child.kill()

    def transactions(self) -> Transactions:
        """All journal entries."""
        told = Transactions()
        for name, journal in self._journals.items():
            told.take(name, journal)
        return told

    # Faults

    async def kill_process(self, node: int, seconds: float) -> None:
        """Send SIGKILL, which leaves a transaction open; start a successor later."""
        self._kill(node)
        await asyncio.sleep(seconds)
        self._launch(node)

    async def bounce_process(self, node: int, seconds: float) -> None:
        """Send SIGKILL; start a successor at once."""
        self._kill(node)
        self._launch(node)
        await asyncio.sleep(0)

    async def freeze_process(self, node: int, seconds: float) -> None:
        """Send SIGSTOP for longer than its session timeout, then SIGCONT."""
        child = self._slots[node].child
        if child is not None:
            child.pause()
            try:
                await asyncio.sleep(self._plan.session * 1.3)
            finally:
                child.resume()

    async def supersede(self, node: int, seconds: float) -> None:
        """Send SIGSTOP, start a successor with its transactional id, then SIGCONT: it is fenced."""
        slot = self._slots[node]
        child, plan = slot.child, slot.plan
        if child is None or plan is None or child.exit_status is not None:
            return
        child.pause()
        self.zombies.append((child, plan, len(_told(plan))))
        try:
            self._launch(node)
            await self._ready(node)
        finally:
            child.resume()

    async def end_process(self, node: int, seconds: float) -> None:
        """Send SIGTERM; start a successor later."""
        child, self._slots[node].child = self._slots[node].child, None
        if child is not None:
            in_time = await asyncio.to_thread(child.terminate, _END)
            assert in_time, self._last_words(child, f"did not end within {_END:.0f} s")
            status = child.exit_status
            assert status in (0, FENCED, -15), self._last_words(child, f"ended with {status}")
        await asyncio.sleep(seconds / 4)
        self._launch(node)

    def _kill(self, node: int) -> None:
        child, self._slots[node].child = self._slots[node].child, None
        if child is not None:
            child.kill()

    def _launch(self, node: int) -> None:
        slot = self._slots[node]
        slot.launches += 1
        name = f"{node}.{slot.launches}"
        journal = self._folder / f"{name}.journal"
        plan = replace(
            self._plan,
            name=name,
            transactional_id=f"processor-{node}",
            seed=f"{self._plan.seed} {name}",
            journal=str(journal),
        )
        journal.touch()
        self._journals[name] = journal
        command = [sys.executable, "-m", "tests.faults.exactly_once_processor", plan.argument()]
        slot.child = Child(command, self._folder / f"{name}.log")
        slot.plan = plan
        self.events["processes"] += 1

    async def _ready(self, node: int) -> None:
        slot = self._slots[node]
        child, plan, deadline = slot.child, slot.plan, time.monotonic() + _READY
        assert child is not None
        assert plan is not None
        while "ready" not in _told(plan) and child.exit_status is None:
            if time.monotonic() > deadline:
                self.events["not ready in time"] += 1
                return
            await asyncio.sleep(_LOOK)

    @staticmethod
    def _last_words(child: Child, what: str) -> str:
        return f"{child.log.name} {what}:\n{child.tail(60)}"


def _told(plan: Plan) -> str:
    return Path(plan.journal).read_text()


async def write_numbers(
    bootstrap: str, topic: str, keys: Sequence[bytes], each: int, seconds: float
) -> None:
    """Write the numbers from 0 for every key, spread evenly over a time.

    Raises:
        KafkaError: Something could not be written.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        enable_idempotence=True,
        linger_ms=20,
        max_batch_size=65_536,
        compression_type="lz4",
        request_timeout_ms=10_000,
        delivery_timeout_ms=900_000,
        max_block_ms=900_000,
        bootstrap_timeout_ms=300_000,  # all brokers may be down
    ) as producer:
        acks: list[Ack] = []
        for number in range(each):
            acks += await producer.send_many(topic, [b"%d" % number] * len(keys), keys=keys)
            if number % _AT_ONCE == 0 or number == each - 1:
                await producer.flush()
                for ack in acks:
                    ack.result()
                acks.clear()
            await asyncio.sleep(max(0.0, began + seconds * (number + 1) / each - loop.time()))
