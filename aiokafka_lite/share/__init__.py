"""The share consumer: queues on Kafka (KIP-932), and the public class.

A record flows through `leaders` (one share session per leader) -> `acquired_records` ->
`reads` -> the application, and its acknowledgement back through `acquisition` ->
`pending_acknowledgements` -> `leaders`. `share_core` connects them.
"""

from aiokafka_lite.share.acknowledge_type import AcknowledgeType
from aiokafka_lite.share.records.record_marks import Acknowledgement
from aiokafka_lite.share.share_consumer import AIOKafkaShareConsumer
from aiokafka_lite.share.share_record import ShareRecord, ShareRecords

__all__ = [
    "AIOKafkaShareConsumer",
    "AcknowledgeType",
    "Acknowledgement",
    "ShareRecord",
    "ShareRecords",
]
