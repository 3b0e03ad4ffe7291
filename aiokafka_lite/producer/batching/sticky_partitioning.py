"""Which partition records without a key go to, once they leave the one they stuck to (KIP-794).

Java weighs all partitions by their queues; here three are compared, so that the cost does not grow
with their number: what a broker is slow to take piles up, and gets less.
"""

import math
import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiokafka_lite.producer.batching._accumulator_python import PartitionQueue, TopicQueues

__all__ = ["stick_to_the_least_pressed"]

CANDIDATES: Final = 3
"""Partitions compared before one is stuck to."""


def stick_to_the_least_pressed(
    topic_queues: "TopicQueues", now: float, availability_timeout: float
) -> "PartitionQueue":
    """Move on to the next partition in turn, or to one of two others with fewer batches waiting.

    Args:
        now: Loop time.
        availability_timeout: Seconds that a broker may take nothing before its partitions are
            avoided; 0: for ever.
    """
    chosen = topic_queues.move_on()
    found = _pressure(chosen, now, availability_timeout)
    for _ in range(CANDIDATES - 1):
        if not found:
            break
        numbers = topic_queues.available or range(len(topic_queues.queues))
        # A third of what random.choice costs; its bias is of no account here.
        other = topic_queues.queues[numbers[int(random.random() * len(numbers))]]
        pressure = _pressure(other, now, availability_timeout)
        if pressure < found:
            chosen, found = other, pressure
    topic_queues.stick_to(chosen)
    return chosen


def _pressure(queue: "PartitionQueue", now: float, availability_timeout: float) -> float:
    """Batches that wait in a partition; infinite where its broker takes nothing any more."""
    if availability_timeout and queue.outbox is not None:
        stalled: float = queue.outbox.stalled_for(now)
        if stalled > availability_timeout:
            return math.inf
    return len(queue.waiting)
