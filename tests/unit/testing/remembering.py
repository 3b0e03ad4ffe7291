"""An in-memory journal in place of the one on disk, for state that must survive a restart."""

from collections.abc import Iterator

from aiokafka_lite.testing.storage.journal import Journal, Key, Value


class Remembering(Journal):
    """Keeps the last value of each key."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, Key], Value] = {}

    def note(self, kind: str, key: Key, value: Value | None) -> None:
        if value is None:
            self.kept.pop((kind, key), None)
        else:
            self.kept[kind, key] = value

    def entries(self, kind: str) -> Iterator[tuple[Key, Value]]:
        return iter([(key, value) for (known, key), value in self.kept.items() if known == kind])
