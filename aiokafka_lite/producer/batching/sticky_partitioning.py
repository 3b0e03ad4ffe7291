"""Chooses the next sticky partition for records without a key (KIP-794, KIP-1123).

Java weights all partitions by the length of their queues. This module compares three, so that the
cost does not grow with their number. Batches for a slow broker accumulate, so its partitions are
chosen less often.
"""

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiokafka_lite.producer.batching._accumulator_python import PartitionQueue, TopicQueues

__all__ = ["stick_to_the_least_pressed"]

CANDIDATES: Final = 3
"""Partitions that are compared for each choice."""


def stick_to_the_least_pressed(
    topic_queues: "TopicQueues",
    now: float,
    availability_timeout: float,
    elsewhere: Sequence[int] = (),
) -> "PartitionQueue":
    """Stick to the next partition in turn, or to one of two others with fewer waiting batches.

    Args:
        now: Loop time.
        availability_timeout: Seconds that a broker may be unresponsive before its partitions are
            avoided; 0: forever.
        elsewhere: The partitions that have a leader in any rack; used if the brokers of the chosen
            ones are unresponsive.
    """
    chosen = topic_queues.move_on()
    found = _pressure(chosen, now, availability_timeout)
    numbers: Sequence[int] = topic_queues.available or range(topic_queues.count)
    for attempt in range(2 * CANDIDATES - 1 if elsewhere else CANDIDATES - 1):
        if not found:
            break
        if attempt == CANDIDATES - 1:
            if found < math.inf:
                break
            numbers = elsewhere
        # A third of the cost of random.choice; the bias does not matter here.
        other = topic_queues.queues[numbers[int(random.random() * len(numbers))]]
        pressure = _pressure(other, now, availability_timeout)
        if pressure < found:
            chosen, found = other, pressure
    topic_queues.stick_to(chosen)
    return chosen


def _pressure(queue: "PartitionQueue", now: float, availability_timeout: float) -> float:
    """Return a partition's waiting batches; infinity if its broker is unresponsive."""
    if availability_timeout and queue.outbox is not None:
        stalled: float = queue.outbox.stalled_for(now)
        if stalled > availability_timeout:
            return math.inf
    return len(queue.waiting)
