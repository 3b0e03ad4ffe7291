"""The states of a member in the classic protocol.

=============  ==================================================  ================================
State          Activity                                            Next state: event
=============  ==================================================  ================================
UNSUBSCRIBED   none                                                PREPARING: a subscription
PREPARING      partitions are revoked (eager: all of them), then   JOINING: JoinGroup is sent
               it waits for the coordinator or a backoff
JOINING        JoinGroup is in flight                              ELECTING, SYNCING: answered;
                                                                   PREPARING: refused
ELECTING       the leader computes the assignment                  SYNCING: computed
SYNCING        SyncGroup waits to be sent, or is in flight         REVOKING, ASSIGNING: answered;
                                                                   PREPARING: refused
REVOKING       cooperative: moving partitions are revoked          ASSIGNING: completed
ASSIGNING      the application receives its partitions             STABLE: completed
STABLE         only heartbeats                                     PREPARING: to rejoin
IDLE           it has left: the application does not poll          PREPARING: a poll
FAILED         a lasting error was reported                        PREPARING: `retry`
FENCED         another member has this one's instance id           LEAVING: only to close
LEAVING        all partitions are revoked, then LeaveGroup         UNSUBSCRIBED, PREPARING (a new
                                                                   subscription), CLOSED
CLOSED         the end
=============  ==================================================  ================================

From any state in `ACTIVE` it also changes to PREPARING when the membership is lost, to IDLE without
polls, and to FAILED or FENCED after an error. `leave` and `close` lead to LEAVING from all states
but the first and the last.
"""

from enum import Enum
from typing import Final


class ClassicState(Enum):
    """The state of a member."""

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
"""States in which the member has its assignment of the generation."""

ACTIVE: Final = frozenset({_S.PREPARING, _S.JOINING, _S.ELECTING, _S.SYNCING}) | SYNCED
"""States in which it is in the group or joining, needs a coordinator, and must be polled."""

BEATING: Final = ACTIVE | {_S.LEAVING}
"""States with heartbeats, if it is in a generation and no JoinGroup or SyncGroup is in flight."""
