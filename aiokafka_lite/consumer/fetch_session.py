"""What is asked of one broker in a fetch, and whom its answer is about. Sans-IO.

A `FetchSession` belongs to one connection of one broker. `next_request` is given the partitions
wanted now, in the order they are to be served, and remembers what it asked; `take_answers` pairs a
response with that. Every fetch names all wanted partitions and opens no session at the broker
(session id 0, epoch -1: KIP-227's "sessionless" full fetch); incremental sessions change what this
class writes, and nothing outside of it.

Source: FetchRequest.json, FetchResponse.json, KIP-74 (order), KIP-227, KIP-320, KIP-516.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from aiokafka_lite.consumer.options import ConsumerOptions
from aiokafka_lite.consumer.positions import PartitionState
from aiokafka_lite.errors import KafkaProtocolError, NodeNotReadyError, for_code
from aiokafka_lite.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

TOPIC_IDS_FROM: Final = 13
"""First version that names topics by id (Kafka 3.1)."""

_NO_SESSION: Final = 0
_SESSIONLESS: Final = -1
_NO_ID: Final = UUID(int=0)


class Asked(NamedTuple):
    """What was asked about one partition, to judge the answer by."""

    state: PartitionState
    generation: int
    offset: int


class Answer(NamedTuple):
    """The broker's answer about one partition that it was asked about."""

    asked: Asked
    data: PartitionData


class FetchSession:
    """The requests and responses of one connection to one broker.

    Args:
        options: The consumer's.
    """

    def __init__(self, options: ConsumerOptions) -> None:
        self._options = options
        self._asked: dict[tuple[str | UUID, int], Asked] = {}

    def version(
        self, latest: int, wanted: Iterable[PartitionState], ids: Mapping[str, UUID]
    ) -> int:
        """The version to speak: `latest`, or one that names topics where an id is not known."""
        if latest >= TOPIC_IDS_FROM and not all(state.tp.topic in ids for state in wanted):
            return TOPIC_IDS_FROM - 1
        return latest

    def next_request(
        self,
        wanted: Iterable[PartitionState],
        ids: Mapping[str, UUID],
        version: int,
        *,
        max_wait: float,
        max_bytes: int,
    ) -> FetchRequest:
        """The request for these partitions.

        Args:
            wanted: Partitions with a position, the one to serve first in front: a broker fills a
                response in this order until it is full.
            ids: Topic ids by name; used from version 13 on.
            version: See `version`.
            max_wait: Seconds the broker may wait for ``fetch_min_bytes``.
            max_bytes: Of the whole response; the first batch is sent even if it is larger.
        """
        topics: dict[str, FetchTopic] = {}
        self._asked = asked = {}
        for state in wanted:
            offset = state.fetch_offset
            if offset is None:
                continue
            name, partition = state.tp
            topic_id = ids.get(name, _NO_ID) if version >= TOPIC_IDS_FROM else _NO_ID
            topic = topics.get(name)
            if topic is None:
                topic = FetchTopic(
                    topic=name if version < TOPIC_IDS_FROM else "", topic_id=topic_id, partitions=[]
                )
                topics[name] = topic
            topic.partitions.append(
                FetchPartition(
                    partition=partition,
                    current_leader_epoch=state.leader_epoch,
                    fetch_offset=offset,
                    partition_max_bytes=state.fetch_bytes,
                )
            )
            key = name if version < TOPIC_IDS_FROM else topic_id
            asked[key, partition] = Asked(state, state.generation, offset)
        return FetchRequest(
            max_wait_ms=round(max_wait * 1000),
            min_bytes=self._options.fetch_min_bytes,
            max_bytes=max_bytes,
            isolation_level=self._options.isolation_level.value,
            session_id=_NO_SESSION,
            session_epoch=_SESSIONLESS,
            topics=list(topics.values()),
            rack_id=self._options.client_rack,
        )

    def take_answers(self, response: FetchResponse, version: int) -> Iterator[Answer]:
        """Each partition of the response, with what was asked about it.

        Raises:
            NodeNotReadyError: the broker refused the request as a whole, whatever its reason: that
                is tried again (as by Java's FetchSessionHandler).
            KafkaProtocolError: the response is about a partition that was not asked for, or about
                one twice.
        """
        asked, self._asked = self._asked, {}
        if response.error_code:
            refusal = for_code(response.error_code).message
            raise NodeNotReadyError(f"the broker refused the fetch: {refusal}")
        for topic in response.responses:
            key = topic.topic if version < TOPIC_IDS_FROM else topic.topic_id
            for data in topic.partitions:
                about = asked.pop((key, data.partition_index), None)
                if about is None:
                    raise KafkaProtocolError(
                        f"a fetch was answered about {key}-{data.partition_index}, "
                        "which was not asked for (or was answered before)"
                    )
                yield Answer(about, data)
