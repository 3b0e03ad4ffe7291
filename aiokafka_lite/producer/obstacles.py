"""Reasons why records cannot be sent, for the messages of timeout errors."""

from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["Obstacle", "why_memory_is_short"]

_MOST: Final = 3  # different obstacles that one message names


class Obstacle(NamedTuple):
    """The reason why a partition's records wait."""

    what: str
    """A clause that stands by itself, such as "broker 0 cannot be reached"."""
    cause: BaseException | None = None
    """The last error that causes the wait; None if there was none yet."""

    def __str__(self) -> str:
        return self.what if self.cause is None else f"{self.what}: {self.cause}"


def why_memory_is_short(obstacles: Iterable[Obstacle | None]) -> str:
    """Explain why no memory is released.

    Args:
        obstacles: The obstacle of each partition with records; None if it can be sent to.
    """
    found: dict[str, None] = {}  # in order, each once
    partitions = blocked = 0
    for obstacle in obstacles:
        partitions += 1
        if obstacle is not None:
            blocked += 1
            found[str(obstacle)] = None
    if not blocked:
        return "records are produced faster than the brokers accept them"
    listed = "; ".join(list(found)[:_MOST])
    if len(found) > _MOST:
        listed += f"; and {len(found) - _MOST} more"
    if blocked == partitions:
        return f"nothing can be sent: {listed}"
    return f"{blocked} of {partitions} partitions with waiting records cannot be sent to: {listed}"
