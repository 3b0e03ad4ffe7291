"""Broker errors about consumer, share and streams groups, their members, sessions and committed
offsets.

A class's docstring is Kafka's description of its code; how a client must react is in
`errors.table`.
"""

from aiokafka_lite.errors.base import BrokerResponseError

__all__ = [
    "FencedInstanceIdError",
    "FencedMemberEpochError",
    "FencedStateEpochError",
    "GroupCoordinatorNotAvailableError",
    "GroupDeletionFailedError",
    "GroupIdNotFound",
    "GroupLoadInProgressError",
    "GroupMaxSizeReachedError",
    "GroupSubscribedToTopicError",
    "IllegalGenerationError",
    "InconsistentGroupProtocolError",
    "InvalidCommitOffsetSizeError",
    "InvalidGroupIdError",
    "InvalidRecordStateError",
    "InvalidRegularExpressionError",
    "InvalidSessionTimeoutError",
    "InvalidShareSessionEpochError",
    "MemberIdRequired",
    "NonEmptyGroup",
    "NotCoordinatorForGroupError",
    "OffsetMetadataTooLargeError",
    "RebalanceInProgressError",
    "ShareSessionLimitReachedError",
    "ShareSessionNotFoundError",
    "StaleMemberEpochError",
    "StreamsInvalidTopologyEpochError",
    "StreamsInvalidTopologyError",
    "StreamsTopologyDescriptionUpdateFailedError",
    "StreamsTopologyFencedError",
    "UnknownMemberIdError",
    "UnreleasedInstanceIdError",
    "UnstableOffsetCommitError",
    "UnsupportedAssignorError",
]


class OffsetMetadataTooLargeError(BrokerResponseError, code=12):
    """The metadata field of the offset request was too large."""


class GroupLoadInProgressError(BrokerResponseError, code=14):
    """The coordinator is loading and hence can't process requests."""


class GroupCoordinatorNotAvailableError(BrokerResponseError, code=15):
    """The coordinator is not available."""


class NotCoordinatorForGroupError(BrokerResponseError, code=16):
    """This is not the correct coordinator."""


class IllegalGenerationError(BrokerResponseError, code=22):
    """Specified group generation id is not valid."""


class InconsistentGroupProtocolError(BrokerResponseError, code=23):
    """The group member's supported protocols are incompatible with those of existing members or
    first group member tried to join with empty protocol type or empty protocol list.
    """


class InvalidGroupIdError(BrokerResponseError, code=24):
    """The group id is invalid."""


class UnknownMemberIdError(BrokerResponseError, code=25):
    """The coordinator is not aware of this member."""


class InvalidSessionTimeoutError(BrokerResponseError, code=26):
    """The session timeout is not within the range allowed by the broker (as configured by
    group.min.session.timeout.ms and group.max.session.timeout.ms).
    """


class RebalanceInProgressError(BrokerResponseError, code=27):
    """The group is rebalancing, so a rejoin is needed."""


class InvalidCommitOffsetSizeError(BrokerResponseError, code=28):
    """The committing offset data size is not valid."""


class NonEmptyGroup(BrokerResponseError, code=68):
    """The group is not empty."""


class GroupIdNotFound(BrokerResponseError, code=69):
    """The group id does not exist."""


class MemberIdRequired(BrokerResponseError, code=79):
    """The group member needs to have a valid member id before actually entering a consumer
    group.
    """


class GroupMaxSizeReachedError(BrokerResponseError, code=81):
    """The group has reached its maximum size."""


class FencedInstanceIdError(BrokerResponseError, code=82):
    """The broker rejected this static consumer since another consumer with the same
    group.instance.id has registered with a different member.id.
    """


class GroupSubscribedToTopicError(BrokerResponseError, code=86):
    """Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to
    it.
    """


class UnstableOffsetCommitError(BrokerResponseError, code=88):
    """There are unstable offsets that need to be cleared."""


class FencedMemberEpochError(BrokerResponseError, code=110):
    """The member epoch is fenced by the group coordinator. The member must abandon all its
    partitions and rejoin.
    """


class UnreleasedInstanceIdError(BrokerResponseError, code=111):
    """The instance ID is still used by another member in the consumer group. That member must
    leave first.
    """


class UnsupportedAssignorError(BrokerResponseError, code=112):
    """The assignor or its version range is not supported by the consumer group."""


class StaleMemberEpochError(BrokerResponseError, code=113):
    """The member epoch is stale. The member must retry after receiving its updated member epoch
    via the ConsumerGroupHeartbeat API.
    """


class InvalidRecordStateError(BrokerResponseError, code=121):
    """The record state is invalid. The acknowledgement of delivery could not be completed."""


class ShareSessionNotFoundError(BrokerResponseError, code=122):
    """The share session was not found."""


class InvalidShareSessionEpochError(BrokerResponseError, code=123):
    """The share session epoch is invalid."""


class FencedStateEpochError(BrokerResponseError, code=124):
    """The coordinator rejected the request because the state epoch did not match."""


class InvalidRegularExpressionError(BrokerResponseError, code=128):
    """The regular expression is not valid."""


class StreamsInvalidTopologyError(BrokerResponseError, code=130):
    """The supplied topology is invalid."""


class StreamsInvalidTopologyEpochError(BrokerResponseError, code=131):
    """The supplied topology epoch is invalid."""


class StreamsTopologyFencedError(BrokerResponseError, code=132):
    """The supplied topology epoch is outdated."""


class ShareSessionLimitReachedError(BrokerResponseError, code=133):
    """The limit of share sessions has been reached."""


class GroupDeletionFailedError(BrokerResponseError, code=134):
    """DeleteGroups could not complete; see the error message on the per-group result for
    details.
    """


class StreamsTopologyDescriptionUpdateFailedError(BrokerResponseError, code=135):
    """The broker could not process the topology description update; see the error message for
    details.
    """
