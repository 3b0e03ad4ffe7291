"""A well-behaved member of a share group, so that absurd requests have records to disturb."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from aiokafka_lite.protocol.message import Request, Response
from aiokafka_lite.protocol.messages import share_fetch
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from aiokafka_lite.protocol.messages.share_fetch import ShareFetchRequest
from aiokafka_lite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from aiokafka_lite.testing.state import ClusterState
from tests.unit.testing.raw import NOW_MS, make_batch

__all__ = ["ShareMember"]

GROUP: Final = "g1"
MEMBER: Final = "m1"
TOPIC: Final = "orders"
VERSIONS: Final = {"Produce": 9, "ShareGroupHeartbeat": 1, "ShareFetch": 2, "ShareAcknowledge": 2}


class ShareMember:
    """Joins, writes, acquires and acknowledges.

    Args:
        chance: Source of randomness.
        state: The cluster.

    Attributes:
        acquired: The number of records that it has acquired.
        acknowledged: The number of acknowledgements that succeeded.
    """

    def __init__(self, chance: Random, state: ClusterState) -> None:
        self._chance = chance
        self._topic = state.topics[TOPIC]
        self._session = 0
        self._held: list[tuple[int, int]] = []
        self.acquired = 0
        self.acknowledged = 0

    def next_request(self) -> tuple[Request, int, int]:
        """A request, its version, and the broker to send it to."""
        request: Request
        choice = self._chance.random()
        if choice < 0.1:
            request = ShareGroupHeartbeatRequest(GROUP, MEMBER, 0, None, [TOPIC])
        elif choice < 0.3:
            count = self._chance.randint(1, 20)
            batch = make_batch(*[(NOW_MS, None, b"v")] * count)
            data = [PartitionProduceData(0, batch)]
            request = ProduceRequest(None, -1, 1000, [TopicProduceData(TOPIC, partition_data=data)])
        elif choice < 0.7 or not self._held or not self._session:
            partitions = [share_fetch.FetchPartition(0)]
            request = ShareFetchRequest(
                *(GROUP, MEMBER, self._session, 0, 0, 2**20),
                max_records=self._chance.choice((1, 5, 100)),
                batch_size=self._chance.choice((1, 5, 100)),
                share_acquire_mode=self._chance.choice((0, 1)),
                topics=[share_fetch.FetchTopic(self._topic.topic_id, partitions)],
            )
        else:
            first, last = self._held.pop(self._chance.randrange(len(self._held)))
            kinds = [self._chance.choice((0, 1, 2, 3))]
            if self._chance.random() < 0.5:
                kinds = [self._chance.choice((0, 1, 2, 3)) for _ in range(last - first + 1)]
            part = AcknowledgePartition(0, [AcknowledgementBatch(first, last, kinds)])
            request = ShareAcknowledgeRequest(
                *(GROUP, MEMBER, self._session, False),
                [AcknowledgeTopic(self._topic.topic_id, [part])],
            )
        return request, VERSIONS[request.name], max(0, self._topic.partitions[0].leader)

    def on_answer(self, request: Request, response: Response) -> None:
        """Handle the response to one of its requests."""
        answer: Any = response
        if isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest):
            self._session = 0 if answer.error_code else request.share_session_epoch + 1
        if isinstance(request, ShareFetchRequest):
            for topic in answer.responses:
                for part in topic.partitions:
                    for one in part.acquired_records:
                        self._held.append((one.first_offset, one.last_offset))
                        self.acquired += one.last_offset - one.first_offset + 1
        elif isinstance(request, ShareAcknowledgeRequest):
            self.acknowledged += sum(
                not part.error_code for topic in answer.responses for part in topic.partitions
            )
