"""The faults of a chaos run and their times, drawn from a seed and logged as they happen.

Two lanes run in parallel, so that faults coincide: one for brokers and topics, one for the network
between them and the client.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from aiokafka_lite.errors import KafkaError

__all__ = [
    "CLUSTER_FAULTS",
    "Fault",
    "Happenings",
    "Stage",
    "cluster_faults",
    "play",
    "wire_faults",
]


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        kind: A method of the stage.
        node: The affected node; -1 for all of them.
        seconds: Its duration.
        pause: Seconds without faults after it.
    """

    kind: str
    node: int
    seconds: float
    pause: float


class Stage(Protocol):
    """A cluster with fault injection. Each method returns when its fault has ended."""

    async def kill(self, node: int, seconds: float) -> None:
        """Send SIGKILL; restart after a while."""

    async def restart(self, node: int, seconds: float) -> None:
        """Send SIGTERM: it moves its leaderships and ends cleanly; then restart."""

    async def freeze(self, node: int, seconds: float) -> None:
        """Send SIGSTOP; SIGCONT after a while."""

    async def lead_elsewhere(self, node: int, seconds: float) -> None:
        """Move leaderships to other brokers."""

    async def grow(self, node: int, seconds: float) -> None:
        """Add a partition to a topic."""

    async def cut(self, node: int, seconds: float) -> None:
        """Cut every connection in the middle of a frame, repeatedly."""

    async def delay(self, node: int, seconds: float) -> None:
        """Delay many responses beyond the request timeout."""

    async def stall(self, node: int, seconds: float) -> None:
        """Keep connections open, but pass no bytes."""


class Happenings:
    """Logs events with their times, to explain a failed run."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    def tell(self, what: str) -> None:
        print(f"{self._loop.time() - self._began:8.2f} s  {what}", flush=True)


CLUSTER_FAULTS: Final = ("kill", "freeze", "lead_elsewhere", "restart", "grow")
WIRE_FAULTS: Final = ("cut", "delay", "stall", "cut")


def cluster_faults(
    seed: int,
    nodes: Sequence[int],
    longest: float,
    longest_pause: float,
    kinds: Sequence[str] = CLUSTER_FAULTS,
) -> Iterator[Fault]:
    """Endless: each kind once, in a random order, then again; each kind affects the nodes in turn.

    Args:
        longest: Seconds that one lasts, at most.
        longest_pause: Maximum seconds without faults after it.
        kinds: The kinds to draw from.
    """
    draw = random.Random(f"cluster {seed}")
    return _rounds(kinds, draw, nodes, longest, longest_pause)


def wire_faults(
    seed: int, nodes: Sequence[int], longest: float, longest_pause: float
) -> Iterator[Fault]:
    """The same for the network."""
    return _rounds(WIRE_FAULTS, random.Random(f"wire {seed}"), nodes, longest, longest_pause)


def _rounds(
    kinds: Sequence[str],
    draw: random.Random,
    nodes: Sequence[int],
    longest: float,
    longest_pause: float,
) -> Iterator[Fault]:
    turns = {kind: draw.sample(list(nodes), len(nodes)) for kind in kinds}
    while True:
        for kind in draw.sample(kinds, len(kinds)):
            turn = turns[kind]
            turn.append(turn.pop(0))
            seconds, pause = draw.uniform(longest / 10, longest), draw.uniform(0, longest_pause)
            yield Fault(kind, turn[-1], seconds, pause)


async def play(
    stage: object, faults: Iterator[Fault], end: asyncio.Event, happenings: Happenings
) -> None:
    """Inject faults one after the other until the end; the one in progress is then completed.

    Each fault is a method of the stage: a `Stage`, or another object with such methods.

    An action that a fault could not complete (an operator's command to a failing cluster) is
    logged, and is not a failure.
    """
    for fault in faults:
        happenings.tell(f"{fault.kind} {fault.node} for {fault.seconds:.1f} s")
        happenings.count[fault.kind] += 1
        try:
            await getattr(stage, fault.kind)(fault.node, fault.seconds)
        except KafkaError as error:
            happenings.tell(f"{fault.kind} {fault.node} could not be done: {error}")
        else:
            happenings.tell(f"{fault.kind} {fault.node} is over")
        try:
            await asyncio.wait_for(end.wait(), fault.pause)
        except TimeoutError:
            continue  # the pause is over, the run is not
        return
