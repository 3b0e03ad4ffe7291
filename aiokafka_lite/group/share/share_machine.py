"""A member of a share group (KIP-932). Sans-IO.

It works like a member of the consumer protocol: heartbeats carry the subscription, and the
coordinator answers with a target assignment. Only the requests and the advice in errors differ. A
share group has no static members and no patterns. No member must revoke a partition before another
gets it: members report no partitions, and their assignments may overlap.

Source: KIP-932; ShareMembershipManager of Kafka's Java client, which also extends the consumer's.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import ClassVar
from uuid import UUID

from aiokafka_lite.errors import (
    GroupIdNotFound,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    KafkaError,
    UnsupportedVersionError,
)
from aiokafka_lite.group.consumer.machine import ConsumerMembership
from aiokafka_lite.group.membership import MembershipOptions
from aiokafka_lite.group.share.heartbeats import ShareHeartbeats
from aiokafka_lite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse

__all__ = ["NEEDS", "ShareMembership"]

NEEDS = (
    "share groups (KIP-932) require Kafka 4.1 or newer with the feature share.version 1, which is"
    " enabled by default from Kafka 4.2 on"
)


class ShareMembership(ConsumerMembership):
    """A member of a share group; implements `membership.Membership`.

    Args:
        options: Options of the member. The group's configuration replaces `session_timeout` and
            `heartbeat_interval`.
        new_uuid: Makes the member id, which the member keeps for life.
    """

    _response_class: ClassVar[type[ShareGroupHeartbeatResponse]] = ShareGroupHeartbeatResponse

    def __init__(
        self, options: MembershipOptions, new_uuid: Callable[[], UUID] = uuid.uuid4
    ) -> None:
        super().__init__(options, new_uuid, ShareHeartbeats)

    def _explain(self, error: KafkaError) -> KafkaError:
        """The error for the application, with advice on how to fix it."""
        advice = ""
        if isinstance(error, UnsupportedVersionError):
            advice = NEEDS
        elif isinstance(error, GroupIdNotFound):
            advice = "it may be a group of another type: a share group needs a name of its own"
        elif isinstance(error, GroupMaxSizeReachedError):
            advice = "the brokers' group.share.max.size limits the members of a share group"
        elif isinstance(error, InvalidRequestError):
            advice = "the coordinator rejected the heartbeat"
        text = str(error.args[0]) if error.args else ""
        parts = [f"share group {self.options.group_id!r}", *filter(None, (advice, text))]
        explained = type(error)(": ".join(parts))
        explained.__cause__ = error.__cause__
        return explained
