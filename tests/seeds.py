"""Where random walks start: at fixed seeds in the suite, at fresh ones in `make explore`.

A walk takes its seeds as the parameter "seed": `@pytest.mark.parametrize("seed", seeds(4))`.
"""

import os
from collections.abc import Sequence
from typing import Final

__all__ = ["FIRST_SEED", "VARIABLE", "exploring", "seeds"]

VARIABLE: Final = "EXPLORE_SEED"
"""The environment variable by which `tests.explore` moves all seeds."""

FIRST_SEED: Final = int(os.environ.get(VARIABLE, "0"))


def exploring() -> bool:
    """True in a round of `make explore`."""
    return VARIABLE in os.environ


def seeds(count: int, first: int = 0) -> Sequence[int]:
    """As many seeds, the same in every run of the suite.

    Args:
        count: How many.
        first: The first one, where nothing is explored.
    """
    return range(FIRST_SEED + first, FIRST_SEED + first + count)
