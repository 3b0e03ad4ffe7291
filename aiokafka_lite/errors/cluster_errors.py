"""Broker errors about requests in general, the administration of topics and configs, controllers
and brokers.

A class's docstring is Kafka's description of its code; how a client must react is in
`errors.table`.
"""

from aiokafka_lite.errors.base import BrokerResponseError

__all__ = [
    "BrokerIdNotRegisteredError",
    "BrokerNotAvailableError",
    "ControllerIdNotRegisteredError",
    "DuplicateBrokerRegistrationError",
    "DuplicateResourceError",
    "DuplicateVoterError",
    "ElectionNotNeededError",
    "EligibleLeadersNotAvailableError",
    "FeatureUpdateFailedError",
    "InconsistentClusterIdError",
    "InconsistentVoterSetError",
    "IneligibleReplicaError",
    "InvalidConfigurationError",
    "InvalidPartitionsError",
    "InvalidRegistrationError",
    "InvalidReplicationAssignmentError",
    "InvalidReplicationFactorError",
    "InvalidRequestError",
    "InvalidUpdateVersionError",
    "InvalidVoterKeyError",
    "LogDirNotFound",
    "MismatchedEndpointTypeError",
    "NewLeaderElectedError",
    "NoError",
    "NoReassignmentInProgressError",
    "NotControllerError",
    "OperationNotAttempted",
    "PolicyViolationError",
    "PositionOutOfRangeError",
    "PreferredLeaderNotAvailableError",
    "ReassignmentInProgress",
    "RebootstrapRequiredError",
    "ResourceNotFoundError",
    "SnapshotNotFoundError",
    "StaleBrokerEpochError",
    "StaleControllerEpochError",
    "TelemetryTooLargeError",
    "ThrottlingQuotaExceededError",
    "TopicAlreadyExistsError",
    "TopicDeletionDisabledError",
    "UnknownControllerIdError",
    "UnknownError",
    "UnknownSubscriptionIdError",
    "UnsupportedEndpointTypeError",
    "UnsupportedVersionError",
    "VoterNotFoundError",
]


class UnknownError(BrokerResponseError, code=-1):
    """The server experienced an unexpected error when processing the request."""


class NoError(BrokerResponseError, code=0):
    """No error: the request was carried out."""


class BrokerNotAvailableError(BrokerResponseError, code=8):
    """The broker is not available."""


class StaleControllerEpochError(BrokerResponseError, code=11):
    """The controller moved to another broker."""


class UnsupportedVersionError(BrokerResponseError, code=35):
    """The version of API is not supported."""


class TopicAlreadyExistsError(BrokerResponseError, code=36):
    """Topic with this name already exists."""


class InvalidPartitionsError(BrokerResponseError, code=37):
    """Number of partitions is below 1."""


class InvalidReplicationFactorError(BrokerResponseError, code=38):
    """Replication factor is below 1 or larger than the number of available brokers."""


class InvalidReplicationAssignmentError(BrokerResponseError, code=39):
    """Replica assignment is invalid."""


class InvalidConfigurationError(BrokerResponseError, code=40):
    """Configuration is invalid."""


class NotControllerError(BrokerResponseError, code=41):
    """This is not the correct controller for this cluster."""


class InvalidRequestError(BrokerResponseError, code=42):
    """This most likely occurs because of a request being malformed by the client library or the
    message was sent to an incompatible broker. See the broker logs for more details.
    """


class PolicyViolationError(BrokerResponseError, code=44):
    """Request parameters do not satisfy the configured policy."""


class OperationNotAttempted(BrokerResponseError, code=55):
    """The broker did not attempt to execute this operation. This may happen for batched RPCs where
    some operations in the batch failed, causing the broker to respond without trying the rest.
    """


class LogDirNotFound(BrokerResponseError, code=57):
    """The user-specified log directory is not found in the broker config."""


class ReassignmentInProgress(BrokerResponseError, code=60):
    """A partition reassignment is in progress."""


class TopicDeletionDisabledError(BrokerResponseError, code=73):
    """Topic deletion is disabled."""


class StaleBrokerEpochError(BrokerResponseError, code=77):
    """Broker epoch has changed."""


class PreferredLeaderNotAvailableError(BrokerResponseError, code=80):
    """The preferred leader was not available."""


class EligibleLeadersNotAvailableError(BrokerResponseError, code=83):
    """Eligible topic partition leaders are not available."""


class ElectionNotNeededError(BrokerResponseError, code=84):
    """Leader election not needed for topic partition."""


class NoReassignmentInProgressError(BrokerResponseError, code=85):
    """No partition reassignment is in progress."""


class ThrottlingQuotaExceededError(BrokerResponseError, code=89):
    """The throttling quota has been exceeded."""

    throttle_time_ms: int = 0
    """How long the broker throttles the client, from its response on (KIP-599)."""


class ResourceNotFoundError(BrokerResponseError, code=91):
    """A request illegally referred to a resource that does not exist."""


class DuplicateResourceError(BrokerResponseError, code=92):
    """A request illegally referred to the same resource twice."""


class InconsistentVoterSetError(BrokerResponseError, code=94):
    """Indicates that the either the sender or recipient of a voter-only request is not one of the
    expected voters.
    """


class InvalidUpdateVersionError(BrokerResponseError, code=95):
    """The given update version was invalid."""


class FeatureUpdateFailedError(BrokerResponseError, code=96):
    """Unable to update finalized features due to an unexpected server error."""


class SnapshotNotFoundError(BrokerResponseError, code=98):
    """Requested snapshot was not found."""


class PositionOutOfRangeError(BrokerResponseError, code=99):
    """Requested position is not greater than or equal to zero, and less than the size of the
    snapshot.
    """


class DuplicateBrokerRegistrationError(BrokerResponseError, code=101):
    """This broker ID is already in use."""


class BrokerIdNotRegisteredError(BrokerResponseError, code=102):
    """The given broker ID was not registered."""


class InconsistentClusterIdError(BrokerResponseError, code=104):
    """The clusterId in the request does not match that found on the server."""


class IneligibleReplicaError(BrokerResponseError, code=107):
    """The new ISR contains at least one ineligible replica."""


class NewLeaderElectedError(BrokerResponseError, code=108):
    """The AlterPartition request successfully updated the partition state but the leader has
    changed.
    """


class MismatchedEndpointTypeError(BrokerResponseError, code=114):
    """The request was sent to an endpoint of the wrong type."""


class UnsupportedEndpointTypeError(BrokerResponseError, code=115):
    """This endpoint type is not supported yet."""


class UnknownControllerIdError(BrokerResponseError, code=116):
    """This controller ID is not known."""


class UnknownSubscriptionIdError(BrokerResponseError, code=117):
    """Client sent a push telemetry request with an invalid or outdated subscription ID."""


class TelemetryTooLargeError(BrokerResponseError, code=118):
    """Client sent a push telemetry request larger than the maximum size the broker will accept."""


class InvalidRegistrationError(BrokerResponseError, code=119):
    """The controller has considered the broker registration to be invalid."""


class InvalidVoterKeyError(BrokerResponseError, code=125):
    """The voter key doesn't match the receiving replica's key."""


class DuplicateVoterError(BrokerResponseError, code=126):
    """The voter is already part of the set of voters."""


class VoterNotFoundError(BrokerResponseError, code=127):
    """The voter is not part of the set of voters."""


class RebootstrapRequiredError(BrokerResponseError, code=129):
    """Client metadata is stale. The client should rebootstrap to obtain new metadata."""


class ControllerIdNotRegisteredError(BrokerResponseError, code=136):
    """The given controller ID was not registered."""
