"""The topics whose metadata a client keeps: those it pinned, and those it used recently.

A producer adds topics as it sends to them and drops the ones it no longer uses; a consumer pins
its whole set. There is no clock: time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable

# Seconds after which an unused topic is no longer requested (Kafka's default of
# metadata.max.idle.ms, KIP-526).
TOPIC_EXPIRY = 300.0


class TrackedTopics:
    """The names of the topics to request.

    Args:
        expiry: Seconds without use, counted from a response, after which an added topic is dropped.
    """

    def __init__(self, expiry: float = TOPIC_EXPIRY) -> None:
        self.all = False  # True if every topic of the cluster is requested
        self._expiry = expiry
        self._pinned: frozenset[str] = frozenset()
        # Name -> expiry time; None: used since the last response, so the next one sets it.
        self._used: dict[str, float | None] = {}

    def add(self, name: str) -> bool:
        """Mark a topic as used now; True if it was not tracked before."""
        new = name not in self._used and name not in self._pinned
        self._used[name] = None
        return new

    def pin(self, names: Iterable[str] | None) -> frozenset[str]:
        """Replace the pinned topics; topics that were added stay.

        Args:
            names: The whole new set, or None for every topic of the cluster.

        Returns:
            The names that were not tracked before.
        """
        self.all = names is None
        pinned = frozenset(names or ())
        new = frozenset(name for name in pinned if name not in self)
        self._pinned = pinned
        return new

    def on_answer(self, now: float) -> None:
        """Drop expired topics; the first response after a use sets a topic's expiry."""
        for name, expires in list(self._used.items()):
            if expires is None:
                self._used[name] = now + self._expiry
            elif expires <= now:
                del self._used[name]

    @property
    def names(self) -> frozenset[str]:
        return self._pinned.union(self._used)

    def wants(self, name: str) -> bool:
        """True if the metadata of a topic must be kept."""
        return self.all or name in self

    def __contains__(self, name: str) -> bool:
        return name in self._used or name in self._pinned
