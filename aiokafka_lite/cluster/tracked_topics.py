"""Which topics a client keeps metadata of: those it named for good, and those it used lately.

A producer learns topics as it sends to them and forgets the ones it no longer uses; a consumer
names its whole set. Both are here, without a clock: time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable

# Seconds after which a topic that is no longer used is no longer asked about (Java's
# TOPIC_EXPIRY_MS; five minutes).
TOPIC_EXPIRY = 300.0


class TrackedTopics:
    """The names to ask about.

    Args:
        expiry: Seconds unused, counted from an answer, after which an added topic is dropped.
    """

    def __init__(self, expiry: float = TOPIC_EXPIRY) -> None:
        self.all = False  # whether every topic of the cluster is asked about
        self._expiry = expiry
        self._pinned: frozenset[str] = frozenset()
        # Name -> the instant it expires; None: used since the last answer, so the next sets it.
        self._used: dict[str, float | None] = {}

    def add(self, name: str) -> bool:
        """Note that a topic is used now; whether it was not tracked before."""
        new = name not in self._used and name not in self._pinned
        self._used[name] = None
        return new

    def pin(self, names: Iterable[str] | None) -> frozenset[str]:
        """Track exactly these for as long as they stay pinned, beside the ones added.

        Args:
            names: The whole new set, or None for every topic there is.

        Returns:
            The names that were not tracked before.
        """
        self.all = names is None
        pinned = frozenset(names or ())
        new = frozenset(name for name in pinned if name not in self)
        self._pinned = pinned
        return new

    def on_answer(self, now: float) -> None:
        """An answer came: the first one since a use sets a topic's expiry; the expired ones go."""
        for name, expires in list(self._used.items()):
            if expires is None:
                self._used[name] = now + self._expiry
            elif expires <= now:
                del self._used[name]

    @property
    def names(self) -> frozenset[str]:
        return self._pinned.union(self._used)

    def wants(self, name: str) -> bool:
        """Whether metadata of a topic is to be kept."""
        return self.all or name in self

    def __contains__(self, name: str) -> bool:
        return name in self._used or name in self._pinned
