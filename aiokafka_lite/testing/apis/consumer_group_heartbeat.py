"""ConsumerGroupHeartbeat, v0-v1: a member joins, reports and leaves a consumer group (KIP-848).

In v0, the broker generates the id of a joining member, in v1 the member does. v1 also supports
subscriptions by regular expression. Null fields have not changed since the last heartbeat.
"""

from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    GroupIdNotFound,
    InvalidRequestError,
    UnsupportedAssignorError,
)
from aiokafka_lite.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.groups.base_group import Joiner
from aiokafka_lite.testing.groups.classic.classic_group import ClassicGroup
from aiokafka_lite.testing.groups.consumer_epochs import JOINING_EPOCH
from aiokafka_lite.testing.groups.consumer_member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from aiokafka_lite.testing.groups.consumer_settings import ConsumerSettings, check_enabled
from aiokafka_lite.testing.groups.migration import MixedGroup, upgrade
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.wording import wording

_OWN_MEMBER_IDS_SINCE: Final = 1
_NOT_TOLD: Final = -1


def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    try:
        context.check()
        check_enabled(context.state.features, context.state.broker_config)
        context.authorize(Operation.READ, Resource.GROUP, request.group_id)
        for name in request.subscribed_topic_names or ():
            context.authorize(Operation.DESCRIBE, Resource.TOPIC, name)
        _check(request, context)
        context.check_coordinator(CoordinatorType.GROUP, request.group_id)
        return _report(request, context)
    except BrokerResponseError as error:
        return ConsumerGroupHeartbeatResponse(
            error_code=error.errno, error_message=wording(error), assignment=None
        )


def _check(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> None:
    """Check what does not depend on the group.

    Raises:
        InvalidRequestError, UnsupportedAssignorError
    """
    epoch = request.member_epoch
    if context.version >= _OWN_MEMBER_IDS_SINCE or epoch > JOINING_EPOCH or epoch == LEAVE_EPOCH:
        _check_filled("MemberId", request.member_id)
    _check_filled("GroupId", request.group_id)
    _check_filled("InstanceId", request.instance_id)
    _check_filled("RackId", request.rack_id)
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == _NOT_TOLD:
            raise InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise InvalidRequestError("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise InvalidRequestError(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when"
                " (re-)joining."
            )
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise InvalidRequestError("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequestError("MemberEpoch is invalid.")
    assignors = context.state.broker_config.members("group.consumer.assignors")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignorError(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors:"
            f" {', '.join(assignors)}."
        )


def _check_filled(name: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise InvalidRequestError(f"{name} can't be empty.")


def _report(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    groups = context.state.groups
    group = _group(request, context)
    existing = groups.get(request.group_id)
    response = group.on_report(
        request,
        Joiner(context.client_id or "", context.session.client_host),
        lambda topic: context.allows(Operation.DESCRIBE, Resource.TOPIC, topic),
    )
    if existing is None or existing.kind == "classic":
        if isinstance(existing, ClassicGroup):
            existing.make_way()
        groups.put(group)
        group.note()
        group.watch_sessions()
    return response


def _group(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> MixedGroup:
    """Return the group, or a new one that is not yet registered.

    Raises:
        GroupIdNotFound: It does not exist, or it is of another kind and cannot be converted.
    """
    state = context.state
    group_id = request.group_id
    group = state.groups.get(group_id)
    if isinstance(group, MixedGroup):
        return group
    settings = ConsumerSettings(group_id, state.broker_config, state.group_config)
    if request.member_epoch != JOINING_EPOCH:
        found = "not found" if group is None else "is not a consumer group"
        raise GroupIdNotFound(f"Group {group_id} {found}.")
    if group is not None and group.kind == "share":
        raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
    if isinstance(group, ClassicGroup) and not group.is_empty:
        return upgrade(group, state.groups, settings)
    return MixedGroup(group_id, state.groups, settings)
