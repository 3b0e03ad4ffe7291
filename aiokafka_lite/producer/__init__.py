"""The producer: public class, batching, sending and transactions.

A record's path: `producer` (public class) -> `batching.accumulator` (its batch, held in
`batching.buffer_memory`) -> the `sending.outbox` of its partition's leader -> `sending.sender`,
which interprets the broker's answer with `produce_errors` and `idempotence` -> the record's `Ack`.
"""

from aiokafka_lite.producer.producer import AIOKafkaProducer

__all__ = ["AIOKafkaProducer"]
