"""The producer: memory, accumulator, sender, and the face.

A record's way: `producer` (the face) -> `accumulator` (its batch, made of `memory`) -> the
`outbox` of the broker that leads its partition -> `sender`, which asks `outcomes` and
`idempotence` what the broker's answer means -> the record's `Ack`.
"""

from aiokafka_lite.producer.producer import AIOKafkaProducer

__all__ = ["AIOKafkaProducer"]
