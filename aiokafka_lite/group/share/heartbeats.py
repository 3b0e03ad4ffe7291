"""The heartbeats of a share group, which carry only changes (KIP-932). Sans-IO.

The first heartbeat of a membership sends everything; later ones omit what the coordinator already
has. When a response is lost, the next heartbeat sends everything again, and the coordinator then
repeats the assignment.

Source: ShareGroupHeartbeatRequest.json; ShareHeartbeatRequestManager of Kafka's Java client.
"""

from __future__ import annotations

from typing import Final

from aiokafka_lite.group.consumer.requests import (
    ANSWERED_WITHIN,
    JOINING_EPOCH,
    LEAVING_EPOCH,
)
from aiokafka_lite.group.consumer.target_assignment import LocalAssignment
from aiokafka_lite.group.membership import MembershipOptions, Send
from aiokafka_lite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

__all__ = ["ShareHeartbeats"]


class ShareHeartbeats:
    """Makes the requests of one member; implements `requests.HeartbeatRequests`.

    Args:
        options: The member's.
        own_id: The member id, which the member makes.
    """

    kind: Final = ShareGroupHeartbeatRequest.name

    def __init__(self, options: MembershipOptions, own_id: str) -> None:
        self._options = options
        self._own_id = own_id
        self._topics: frozenset[str] | None = None  # as sent last

    def forget(self) -> None:
        """The coordinator may have missed a heartbeat: send everything."""
        self._topics = None

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        topics: frozenset[str],
        pattern: str | None,
        owned: LocalAssignment,
    ) -> Send:
        """A heartbeat that joins (epoch 0) or continues; its fields count as sent.

        Args:
            member_id: Not used: the member id never changes.
            topics: Subscribed to by name.
            pattern: Not used: share groups have no patterns.
            owned: Not used: members do not report partitions.
        """
        everything = self._topics is None or epoch == JOINING_EPOCH
        changed = everything or self._topics != topics
        self._topics = topics
        return self._send(
            ShareGroupHeartbeatRequest(
                group_id=self._options.group_id,
                member_id=self._own_id,
                member_epoch=epoch,
                rack_id=(self._options.client_rack or None) if everything else None,
                subscribed_topic_names=sorted(topics) if changed else None,
            )
        )

    def leave(self, member_id: str, epoch: int) -> Send:
        """The last heartbeat of a membership; there are no static members."""
        self._topics = None
        return self._send(
            ShareGroupHeartbeatRequest(
                group_id=self._options.group_id,
                member_id=self._own_id,
                member_epoch=LEAVING_EPOCH,
            )
        )

    def _send(self, request: ShareGroupHeartbeatRequest) -> Send:
        return Send(
            self.kind,
            ShareGroupHeartbeatRequest,
            lambda version: request,
            min(self._options.request_timeout, ANSWERED_WITHIN),
            oldest=ShareGroupHeartbeatRequest.min_version,
        )
