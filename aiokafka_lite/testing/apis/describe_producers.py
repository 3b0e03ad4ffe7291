"""DescribeProducers, v0: the producers of partitions that this broker leads (KIP-664)."""

from aiokafka_lite.errors import BrokerResponseError
from aiokafka_lite.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.topics import Partition, check_topic_name
from aiokafka_lite.testing.wording import wording


def handle(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name,
                [_describe(topic.name, index, context) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(topic: str, index: int, context: RequestContext) -> PartitionResponse:
    try:
        check_topic_name(topic)
        context.authorize(Operation.READ, Resource.TOPIC, topic)
        partition = context.led_partition(context.topic(topic), index)
    except BrokerResponseError as error:
        return PartitionResponse(index, error.errno, wording(error))
    return PartitionResponse(index, active_producers=_producers(partition))


def _producers(partition: Partition) -> list[ProducerState]:
    first_offset = partition.producers.transactions.first_offset
    states = []
    for producer_id, producer in sorted(partition.producers.all().items()):
        begun = first_offset(producer_id)
        states.append(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=-1 if begun is None else begun,
            )
        )
    return states
