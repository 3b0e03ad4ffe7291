"""The states of a member in the classic protocol.

=============  ==================================================  ================================
State          What goes on                                        Left for
=============  ==================================================  ================================
UNSUBSCRIBED   nothing is wanted                                   PREPARING: a subscription
PREPARING      partitions are given back (eager: all of them),     JOINING: JoinGroup is sent
               then the coordinator or a backoff is waited for
JOINING        JoinGroup is under way                              ELECTING, SYNCING: answered;
                                                                   PREPARING: refused
ELECTING       the leader's assignment is being computed           SYNCING: it is there
SYNCING        SyncGroup waits to be sent, or is under way         REVOKING, ASSIGNING: answered;
                                                                   PREPARING: refused
REVOKING       cooperative: what goes elsewhere is given back      ASSIGNING: it is
ASSIGNING      the application gets its partitions                 STABLE: it has them
STABLE         heartbeats, and nothing else                        PREPARING: to rejoin
IDLE           it has left: the application does not poll          PREPARING: a poll
FAILED         a lasting error was told                            PREPARING: `retry`
FENCED         another member has this one's instance id           never, but to close
LEAVING        everything is given back, then LeaveGroup           UNSUBSCRIBED, PREPARING (another
                                                                   subscription came), CLOSED
CLOSED         the end
=============  ==================================================  ================================

Besides, from any state of `ACTIVE`: to PREPARING when the membership is lost, to IDLE without
polls, to FAILED or FENCED by an error, to LEAVING by `leave` and `close` (these from all states
but the first and the last).
"""

from enum import Enum
from typing import Final


class ClassicState(Enum):
    """Where a member stands."""

    UNSUBSCRIBED = "unsubscribed"
    PREPARING = "preparing"
    JOINING = "joining"
    ELECTING = "electing"
    SYNCING = "syncing"
    REVOKING = "revoking"
    ASSIGNING = "assigning"
    STABLE = "stable"
    IDLE = "idle"
    FAILED = "failed"
    FENCED = "fenced"
    LEAVING = "leaving"
    CLOSED = "closed"


_S = ClassicState

SYNCED: Final = frozenset({_S.REVOKING, _S.ASSIGNING, _S.STABLE})
"""It has its share of the generation."""

ACTIVE: Final = frozenset({_S.PREPARING, _S.JOINING, _S.ELECTING, _S.SYNCING}) | SYNCED
"""It is in the group or on its way: it wants a coordinator, and polls."""

BEATING: Final = ACTIVE | {_S.LEAVING}
"""States with heartbeats, if it is in a generation and no JoinGroup or SyncGroup is in flight."""
