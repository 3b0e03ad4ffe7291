"""The states of a member of the consumer protocol, and what may follow what (KIP-848): sans-IO."""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = ["ENDED", "FOLLOWING", "IN_GROUP", "LEAVES", "MemberState"]


class MemberState(Enum):
    """Java's states, under Java's names."""

    UNSUBSCRIBED = "unsubscribed"  # no member
    JOINING = "joining"  # asks to be one; owns nothing
    RECONCILING = "reconciling"  # makes a target its own
    ACKNOWLEDGING = "acknowledging"  # has done so, and the next heartbeat says so
    STABLE = "stable"
    FENCED = "fenced"  # the coordinator does not know it; joins when the listener is through
    PREPARE_LEAVING = "prepare leaving"  # leaves when the listener is through
    LEAVING = "leaving"  # says so
    FATAL = "fatal"  # a lasting error
    STALE = "stale"  # left, since the application did not poll; joins at the next poll


_S = MemberState

IN_GROUP: Final = frozenset({_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE})
"""The states of a member in the group, or about to join."""

LEAVES: Final = frozenset({_S.PREPARE_LEAVING, _S.LEAVING})
"""The states of a member that is about to leave."""

ENDED: Final = LEAVES | {_S.FATAL}
"""The states from which only the application leads back into the group."""

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
