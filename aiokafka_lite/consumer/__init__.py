"""The consumer: subscription, positions, the prefetching fetcher, delivery, and the public class.

A record flows through `fetcher` (one fetch per broker, built from the `fetch_session`) ->
`buffer` -> `reader` -> `delivery` -> the application. `core` connects them.
"""

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.membership.subscription import SubscriptionPattern

__all__ = ["AIOKafkaConsumer", "SubscriptionPattern"]
