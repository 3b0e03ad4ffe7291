"""The heartbeats of the consumer protocol, which carry only changes (KIP-848). Sans-IO.

The first heartbeat of a membership sends everything; later ones omit what the coordinator already
has. When a response is lost, it is uncertain what the coordinator has: the next heartbeat sends
everything again, and the coordinator then repeats the assignment.

Source: ConsumerGroupHeartbeatRequest.json; ConsumerHeartbeatRequestManager of Kafka's Java client.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from aiokafka_lite.group.consumer.target_assignment import LocalAssignment
from aiokafka_lite.group.membership import MembershipOptions, Send
from aiokafka_lite.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

__all__ = [
    "ANSWERED_WITHIN",
    "HEARTBEAT",
    "JOINING_EPOCH",
    "LEAVING_EPOCH",
    "STATIC_LEAVING_EPOCH",
    "HeartbeatRequests",
    "Heartbeats",
]

HEARTBEAT: Final = ConsumerGroupHeartbeatRequest.name
JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
OWN_MEMBER_IDS_FROM: Final = 1
"""First version whose members make their own ids."""
PATTERNS_FROM: Final = 1
"""First version with subscriptions by regular expression."""

ANSWERED_WITHIN: Final = 20.0
"""Seconds after which a heartbeat's connection counts as dead, and the next one uses another.

Brokers allow sessions from 45 s by default (`group.consumer.min.session.timeout.ms`), with at most
15 s between heartbeats: a request timeout of 40 s would lose the membership with the connection."""

_UNCHANGED: Final = -1


class HeartbeatRequests(Protocol):
    """Makes the heartbeats of one member: of a consumer group, or of a share group."""

    @property
    def kind(self) -> str:
        """The API's name, with which outcomes are reported."""

    def forget(self) -> None:
        """The coordinator may have missed a heartbeat: send everything."""

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        topics: frozenset[str],
        pattern: str | None,
        owned: LocalAssignment,
    ) -> Send:
        """A heartbeat that joins (epoch 0) or continues."""

    def leave(self, member_id: str, epoch: int) -> Send:
        """The last heartbeat of a membership."""


@dataclass(frozen=True, slots=True)
class _SentFields:
    """The fields that the last heartbeats sent to the coordinator."""

    topics: frozenset[str]
    pattern: str
    owned: LocalAssignment


class Heartbeats:
    """Makes the requests of one member.

    Args:
        options: The member's.
        own_id: The member id for versions in which the member makes it.
    """

    kind: Final = HEARTBEAT

    def __init__(self, options: MembershipOptions, own_id: str) -> None:
        self._options = options
        self._own_id = own_id
        self._last: _SentFields | None = None
        timeout = options.rebalance_timeout
        # As in Java: a member that need not poll for this long may take as long to revoke.
        seconds = options.max_poll_interval if timeout is None else timeout
        self._rebalance_timeout_ms = min(round(seconds * 1000), 0x7FFFFFFF)

    def forget(self) -> None:
        """The coordinator may have missed a heartbeat: send everything."""
        self._last = None

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
            member_id: As the coordinator returned it; "" before that.
            topics: Subscribed to by name.
            pattern: Subscribed to by RE2 pattern.
            owned: The partitions that the member owns.
        """
        last, self._last = self._last, _SentFields(topics, pattern or "", owned)
        everything = last is None or epoch == JOINING_EPOCH
        names = None if last and not everything and last.topics == topics else sorted(topics)
        # "" is sent even without a pattern: a static member's predecessor may have had one.
        regex = (
            None if last and not everything and last.pattern == (pattern or "") else pattern or ""
        )
        partitions = None if last and not everything and last.owned == owned else _by_topic(owned)
        options = self._options

        def request_for(version: int) -> ConsumerGroupHeartbeatRequest:
            return ConsumerGroupHeartbeatRequest(
                group_id=options.group_id,
                member_id=self._id(member_id, version),
                member_epoch=epoch,
                instance_id=options.group_instance_id,
                rack_id=(options.client_rack or None) if everything else None,
                rebalance_timeout_ms=self._rebalance_timeout_ms if everything else _UNCHANGED,
                subscribed_topic_names=names,
                subscribed_topic_regex=regex if version >= PATTERNS_FROM else None,
                server_assignor=options.server_assignor if everything else None,
                topic_partitions=partitions,
            )

        return self._send(request_for, PATTERNS_FROM if pattern else 0)

    def leave(self, member_id: str, epoch: int) -> Send:
        """The last heartbeat of a membership.

        Args:
            member_id: As the coordinator returned it; "" if it never responded.
            epoch: -1; -2 of a static member that will be back.
        """
        self._last = None
        options = self._options

        def request_for(version: int) -> ConsumerGroupHeartbeatRequest:
            return ConsumerGroupHeartbeatRequest(
                group_id=options.group_id,
                member_id=self._id(member_id, version),
                member_epoch=epoch,
                instance_id=options.group_instance_id,
            )

        # A member cannot leave with a broker-made id that it never received.
        return self._send(request_for, 0 if member_id else OWN_MEMBER_IDS_FROM)

    def _id(self, member_id: str, version: int) -> str:
        return member_id or (self._own_id if version >= OWN_MEMBER_IDS_FROM else "")

    def _send(
        self, request_for: Callable[[int], ConsumerGroupHeartbeatRequest], oldest: int
    ) -> Send:
        return Send(
            HEARTBEAT,
            ConsumerGroupHeartbeatRequest,
            request_for,
            min(self._options.request_timeout, ANSWERED_WITHIN),
            oldest=oldest,
        )


def _by_topic(owned: LocalAssignment) -> list[TopicPartitions]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(owned.partitions):
        topics.setdefault(topic_id, []).append(partition)
    return [TopicPartitions(topic_id, partitions) for topic_id, partitions in topics.items()]
