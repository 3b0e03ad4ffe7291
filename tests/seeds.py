"""The seeds of random walks: fixed ones in the suite, fresh ones in `make explore`.

A walk takes its seeds as the parameter "seed": `@pytest.mark.parametrize("seed", seeds(4))`.
"""

import os
from collections.abc import Sequence
from typing import Final

__all__ = ["FIRST_SEED", "VARIABLE", "exploring", "seeds"]

VARIABLE: Final = "EXPLORE_SEED"
"""The environment variable with which `tests.explore` shifts all seeds."""

FIRST_SEED: Final = int(os.environ.get(VARIABLE, "0"))


def exploring() -> bool:
    """True in a round of `make explore`."""
    return VARIABLE in os.environ


def seeds(count: int, first: int = 0) -> Sequence[int]:
    """Return this many seeds, the same ones in every run of the suite.

    Args:
        count: The number of seeds.
        first: The first one, outside `make explore`.
    """
    return range(FIRST_SEED + first, FIRST_SEED + first + count)
