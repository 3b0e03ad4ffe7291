"""Which broker coordinates which group or transactional id, as far as it was looked up."""

from __future__ import annotations

import enum


class CoordinatorKind(enum.IntEnum):
    """What is coordinated; the numbers are FindCoordinator's key types."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Coordinators:
    """The look-ups remembered: node ids by (kind, key). `retry.CoordinatorOf` fills it."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[CoordinatorKind, str], int] = {}

    def get(self, kind: CoordinatorKind, key: str) -> int | None:
        return self._nodes.get((kind, key))

    def set(self, kind: CoordinatorKind, key: str, node_id: int) -> None:
        self._nodes[kind, key] = node_id

    def forget(self, kind: CoordinatorKind, key: str) -> None:
        """It turned out to be wrong, or cannot be reached: the next use looks it up again."""
        self._nodes.pop((kind, key), None)
