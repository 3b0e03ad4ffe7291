"""What an error means for a member of the consumer protocol: one function, one table of tests.

Sans-IO. Source: AbstractHeartbeatRequestManager.onErrorResponse and ConsumerHeartbeatRequestManager
of Kafka's Java client 4.4; `reaction` names the cases in which Java fails unnecessarily.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from aiokafka_lite.errors import (
    AuthenticationFailedError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupCoordinatorNotAvailableError,
    GroupIdNotFound,
    GroupLoadInProgressError,
    InvalidRegularExpressionError,
    InvalidRequestError,
    KafkaError,
    NotCoordinatorForGroupError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from aiokafka_lite.group.membership import MembershipOptions

__all__ = ["Reaction", "explain", "reaction"]


class Reaction(Enum):
    """The consequence of a failed heartbeat for the member."""

    RETRY = "retry"  # later, with the same coordinator
    MOVED = "moved"  # find the coordinator
    LOST = "lost"  # the connection is gone, and perhaps the coordinator: find it, later
    REPORT = "report"  # report to the application; the member continues
    FENCED = "fenced"  # all partitions are lost: rejoin
    FATAL = "fatal"


_TABLE: Final[dict[type[KafkaError], Reaction]] = {
    FencedMemberEpochError: Reaction.FENCED,
    GroupCoordinatorNotAvailableError: Reaction.MOVED,
    GroupLoadInProgressError: Reaction.RETRY,
    NotCoordinatorForGroupError: Reaction.MOVED,
    TopicAuthorizationFailedError: Reaction.REPORT,
    UnknownMemberIdError: Reaction.FENCED,
}


def reaction(error: KafkaError, *, answered: bool, joining: bool) -> Reaction:
    """Classify the error of a heartbeat.

    Args:
        error: The coordinator's error code as an exception, or the failure of the request.
        answered: True if a coordinator responded.
        joining: True if the heartbeat was a join: rejoining cannot help against unknown ids then.
    """
    if not answered and isinstance(error, AuthenticationFailedError) and not joining:
        # Java fails, but the coordinator keeps the member until its session times out.
        return Reaction.REPORT
    if not answered:
        return Reaction.LOST if error.retriable else Reaction.FATAL
    if isinstance(error, GroupIdNotFound):
        # Java fails. A group may have been deleted because all its members seemed gone, for example
        # one on a suspended machine. If a join fails this way, the group is not a consumer group.
        return Reaction.FATAL if joining else Reaction.FENCED
    known = _TABLE.get(type(error))
    if known is not None:
        return known
    return Reaction.RETRY if error.retriable else Reaction.FATAL


def explain(error: KafkaError, options: MembershipOptions, pattern: str | None) -> KafkaError:
    """The error for the application, with advice on how to fix it."""
    advice = ""
    if isinstance(error, UnsupportedVersionError):
        advice = (
            "subscribing to a broker-side pattern requires Kafka 4.0"
            if pattern
            else "the cluster does not support the consumer group protocol (KIP-848), which"
            " requires Kafka 4.0 with the feature group.version 1 and the protocol enabled; use"
            " group_protocol='classic' otherwise"
        )
    elif isinstance(error, UnreleasedInstanceIdError | FencedInstanceIdError):
        advice = f"group_instance_id {options.group_instance_id!r} is in use by another member"
    elif isinstance(error, UnsupportedAssignorError):
        advice = f"server assignor {options.server_assignor!r}"
    elif isinstance(error, InvalidRegularExpressionError):
        advice = f"pattern {pattern!r}"
    elif isinstance(error, InvalidRequestError):
        advice = "the coordinator rejected the heartbeat"
    text = str(error.args[0]) if error.args else ""
    parts = [f"group {options.group_id!r}", *filter(None, (advice, text))]
    explained = type(error)(": ".join(parts))
    explained.__cause__ = error.__cause__
    return explained
