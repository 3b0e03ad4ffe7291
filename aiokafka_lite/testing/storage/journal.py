"""The state that survives a cluster's restart, as keys and their latest values.

It resembles Kafka's compacted topics: a component records each change of its state under a kind
and a key, and reads back the last value of each key at startup. It records a change before it makes
it, or undoes it: if the disk is full, a repeated request must not find it done. A cluster without a
data folder has a `Journal` that stores nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

__all__ = ["Journal", "Key", "Value"]

Key: TypeAlias = tuple[str | int, ...]
Value: TypeAlias = Mapping[str, Any]  # Any: any JSON value


class Journal:
    """A journal that stores nothing; `FileJournal` stores its entries."""

    def note(self, kind: str, key: Key, value: Value | None) -> None:
        """Record `value` under a key; None deletes the key."""

    def entries(self, kind: str) -> Iterator[tuple[Key, Value]]:
        """Yield the entries of a kind in the order in which the keys first appeared."""
        return iter(())
