"""What goes wrong in a chaos run, and when: drawn from a seed, told with its time as it happens.

Two lanes run side by side, because faults come together: one does things to brokers and topics, one
to the network between them and the client.
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
    """One thing that goes wrong.

    Attributes:
        kind: A method of the stage.
        node: Whom it strikes; -1 where it is all of them.
        seconds: How long it lasts.
        pause: Seconds of peace after it.
    """

    kind: str
    node: int
    seconds: float
    pause: float


class Stage(Protocol):
    """A cluster that faults can be done to. Each method returns when its fault is over."""

    async def kill(self, node: int, seconds: float) -> None:
        """SIGKILL, and another start after a while."""

    async def restart(self, node: int, seconds: float) -> None:
        """SIGTERM: it hands its partitions over and ends in order; then another start."""

    async def freeze(self, node: int, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after a while."""

    async def lead_elsewhere(self, node: int, seconds: float) -> None:
        """Other brokers lead."""

    async def grow(self, node: int, seconds: float) -> None:
        """A topic gets one more partition."""

    async def cut(self, node: int, seconds: float) -> None:
        """Every connection ends in the middle of something, again and again."""

    async def delay(self, node: int, seconds: float) -> None:
        """Many answers come after the request's time is over."""

    async def stall(self, node: int, seconds: float) -> None:
        """Connections stay, and nothing comes through."""


class Happenings:
    """Tells what happens, with its time, so that a failed run can be read."""

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
    """Endless: each kind once, in a drawn order, then again; each kind strikes the nodes in turn.

    Args:
        longest: Seconds that one lasts, at most.
        longest_pause: Seconds of peace after it, at most.
        kinds: What there is to draw from.
    """
    draw = random.Random(f"cluster {seed}")
    return _rounds(kinds, draw, nodes, longest, longest_pause)


def wire_faults(
    seed: int, nodes: Sequence[int], longest: float, longest_pause: float
) -> Iterator[Fault]:
    """Likewise for the network."""
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
    """Let faults happen one after the other until the end; the one under way then is finished.

    Each is a method of the stage: of a `Stage`, or of anything else that faults can be done to.

    What a fault could not do (an operator's command to a cluster that is in trouble) is told, and
    is no failure.
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
