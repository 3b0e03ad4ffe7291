"""The consumer: subscription and positions, the fetcher that reads ahead, delivery, and the face.

A record's way: `fetcher` (one fetch a broker, built from the `fetch_session`) -> `buffer` ->
`reader` -> `delivery` -> the application; `core` keeps them together, without the face.
"""

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.membership.subscription import SubscriptionPattern

__all__ = ["AIOKafkaConsumer", "SubscriptionPattern"]
