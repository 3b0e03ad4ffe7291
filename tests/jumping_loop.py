"""An event loop whose clock jumps between two reads, as if the process had been preempted.

Code that reads the clock twice for one decision may decide against an action after the first read
and set no timer after the second. On an idle machine that hardly ever happens. `make explore` runs
tests on this loop, where it happens all the time.
"""

import asyncio
import os
import random
from typing import Final

JUMPS: Final = "JUMPS"
"""The environment variable with a seed: tests on embedded brokers then run on this loop."""

SHORT: Final = 0.002
"""Maximum seconds of a usual jump, in one of five reads."""

LONG: Final = 0.05
"""Maximum seconds of a rare jump, in one of a thousand reads."""


class JumpingLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, with a clock that advances in random jumps.

    Args:
        seed: The seed of the jumps; by default that of the environment variable.
    """

    def __init__(self, seed: str | None = None) -> None:
        self._chance = random.Random(os.environ.get(JUMPS) if seed is None else seed)
        self._ahead = 0.0
        super().__init__()

    def time(self) -> float:
        """Return seconds that never decrease."""
        chance = self._chance.random()
        if chance < 0.2:
            self._ahead += self._chance.uniform(0, LONG if chance < 0.001 else SHORT)
        return super().time() + self._ahead
