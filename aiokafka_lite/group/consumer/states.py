"""The states of a member of the consumer protocol (KIP-848) and their transitions: sans-IO."""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = ["ENDED", "FOLLOWING", "IN_GROUP", "LEAVES", "MemberState"]


class MemberState(Enum):
    """Java's states, under Java's names."""

    UNSUBSCRIBED = "unsubscribed"  # not a member
    JOINING = "joining"  # the join is requested; owns nothing
    RECONCILING = "reconciling"  # revokes and assigns partitions to reach a target
    ACKNOWLEDGING = "acknowledging"  # reached it; the next heartbeat acknowledges
    STABLE = "stable"
    FENCED = "fenced"  # removed by the coordinator; rejoins once the listener returned
    PREPARE_LEAVING = "prepare leaving"  # leaves once the listener returned
    LEAVING = "leaving"  # the heartbeat that leaves is due or in flight
    FATAL = "fatal"  # a lasting error
    STALE = "stale"  # left because the application did not poll; rejoins at a poll


_S = MemberState

IN_GROUP: Final = frozenset({_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE})
"""States of a member in the group or joining it."""

LEAVES: Final = frozenset({_S.PREPARE_LEAVING, _S.LEAVING})
"""States of a member that is leaving."""

ENDED: Final = LEAVES | {_S.FATAL}
"""States from which the member rejoins only if the application requests it."""

_OUT: Final = ENDED | {_S.FENCED}

FOLLOWING: Final[dict[MemberState, frozenset[MemberState]]] = {
    _S.UNSUBSCRIBED: frozenset({_S.JOINING}),
    _S.JOINING: _OUT | {_S.RECONCILING, _S.STABLE},
    _S.RECONCILING: _OUT | {_S.ACKNOWLEDGING},
    _S.ACKNOWLEDGING: _OUT | {_S.RECONCILING, _S.STABLE},
    _S.STABLE: _OUT | {_S.RECONCILING},
    _S.FENCED: frozenset({_S.JOINING, _S.PREPARE_LEAVING}),
    _S.PREPARE_LEAVING: frozenset({_S.LEAVING}),
    _S.LEAVING: frozenset({_S.UNSUBSCRIBED, _S.STALE}),
    _S.FATAL: frozenset({_S.JOINING, _S.PREPARE_LEAVING}),
    _S.STALE: frozenset({_S.JOINING, _S.PREPARE_LEAVING}),
}
