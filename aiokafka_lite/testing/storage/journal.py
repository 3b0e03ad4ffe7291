"""What a cluster would not forget over a restart, as keys and their newest values.

It is Kafka's compacted topics in small: a room notes each change of what it remembers under a
kind and a key, and at the start reads back the last value of each key. A cluster in memory has a
`Journal` that keeps nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

__all__ = ["Journal", "Key", "Value"]

Key: TypeAlias = tuple[str | int, ...]
Value: TypeAlias = Mapping[str, Any]  # Any: what JSON can say


class Journal:
    """Forgets at once; `storage` has the one that does not."""

    def note(self, kind: str, key: Key, value: Value | None) -> None:
        """Remember `value` under a key; None: forget the key."""

    def entries(self, kind: str) -> Iterator[tuple[Key, Value]]:
        """What is remembered of a kind, in the order in which the keys first appeared."""
        return iter(())
