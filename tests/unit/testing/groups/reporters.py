"""Members of consumer groups on a socketless broker; they keep their assignments."""

from typing import Any
from uuid import UUID

from aiokafka_lite.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from aiokafka_lite.testing.groups.migration import MixedGroup
from tests.unit.testing.raw import SocketlessBroker

__all__ = ["FakeReporter", "group_of", "settle"]


def group_of(broker: SocketlessBroker, group_id: str = "g") -> MixedGroup:
    """The consumer group with this id."""
    group = broker.state.groups.get(group_id)
    assert isinstance(group, MixedGroup)
    return group


class FakeReporter:
    """A client with manual heartbeats; it acknowledges an assignment with its next full heartbeat.

    Args:
        broker: The group's broker.
        member_id: The id that it chooses.
        topics: Its subscription.
        fields: Fields of its first heartbeat.
    """

    def __init__(
        self, broker: SocketlessBroker, member_id: str, *topics: str, **fields: Any
    ) -> None:
        self.broker = broker
        self.member_id = member_id
        self.group = fields.pop("group", "g")
        self.instance_id = fields.pop("instance_id", None)
        self.topics = list(topics) if topics else None
        self.fields = fields
        self.epoch = 0
        self.owned: dict[UUID, set[int]] = {}

    def join(self, **fields: Any) -> int:
        """Join from scratch; return the error code."""
        self.owned = {}
        first = {
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": self.topics,
            "topic_partitions": [],
            "member_epoch": 0,
        }
        return self.tell(**{**first, **self.fields, **fields})

    def report(self, **fields: Any) -> int:
        """Report its owned partitions and the given fields; return the error code."""
        owned = [TopicPartitions(one, sorted(numbers)) for one, numbers in self.owned.items()]
        return self.tell(**{"topic_partitions": owned, **fields})

    def tell(self, **fields: Any) -> int:
        """Send a heartbeat with only the given fields; return the error code."""
        response = self.ask(**fields)
        if not response.error_code:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                topics = response.assignment.topic_partitions
                self.owned = {topic.topic_id: set(topic.partitions) for topic in topics}
        return response.error_code

    def ask(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            **{
                "group_id": self.group,
                "member_id": self.member_id,
                "member_epoch": self.epoch,
                "instance_id": self.instance_id,
                **fields,
            }
        )
        response: ConsumerGroupHeartbeatResponse = self.broker.ask(request, 1)
        return response

    def leave(self, epoch: int = -1) -> int:
        return self.ask(member_epoch=epoch).error_code

    @property
    def count(self) -> int:
        """The number of assigned partitions."""
        return sum(map(len, self.owned.values()))


def settle(broker: SocketlessBroker, *members: FakeReporter) -> None:
    """Let all members send heartbeats until no assignment changes."""
    for _ in range(4 * len(members) + 4):
        broker.clock.advance(1.0)  # one assignment per second
        for member in members:
            assert member.report() == 0
        if not members or group_of(broker, members[0].group).state == "Stable":
            return
    raise AssertionError(f"the group does not settle: {group_of(broker, members[0].group).state}")
