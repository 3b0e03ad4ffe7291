"""The identity of a group's member, which transactions send with its offsets."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GroupMetadata"]


class GroupMetadata(NamedTuple):
    """The identity of a group member, for TxnOffsetCommit (KIP-447)."""

    group_id: str
    generation: int
    """Generation, or member epoch; -1 outside of the group."""
    member_id: str
    """"" outside of the group."""
    instance_id: str | None
