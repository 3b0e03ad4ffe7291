"""An event loop whose clock jumps between two looks at it, as if the process had been preempted.

Code that reads the clock twice for one decision may decide against an action at the first look and
set no timer at the second. On an idle machine that hardly ever happens. `make explore` runs tests
on this loop, where it happens all the time.
"""

import asyncio
import os
import random
from typing import Final

JUMPS: Final = "JUMPS"
"""The environment's variable with a seed: tests on embedded brokers run on this loop."""

SHORT: Final = 0.002
"""Maximum seconds of a usual jump, in one of five looks."""

LONG: Final = 0.05
"""Maximum seconds of a rare jump, in one of a thousand looks."""


class JumpingLoop(asyncio.SelectorEventLoop):
    """asyncio's own, with a clock that runs faster in random jumps.

    Args:
        seed: Of the jumps; by default that of the environment's variable.
    """

    def __init__(self, seed: str | None = None) -> None:
        self._chance = random.Random(os.environ.get(JUMPS) if seed is None else seed)
        self._ahead = 0.0
        super().__init__()

    def time(self) -> float:
        """Seconds; it never goes back."""
        chance = self._chance.random()
        if chance < 0.2:
            self._ahead += self._chance.uniform(0, LONG if chance < 0.001 else SHORT)
        return super().time() + self._ahead
