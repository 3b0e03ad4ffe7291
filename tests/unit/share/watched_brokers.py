"""Observes what the embedded brokers do with each delivery of a share group."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

from aiokafka_lite.testing.share.acknowledging import AcknowledgedRange, AcknowledgeType
from aiokafka_lite.testing.share.acquiring import Acquired
from aiokafka_lite.testing.share.share_partition import AcquireRequest, SharePartition

__all__ = ["LOCK", "Brokers", "Delivery"]

LOCK = 15.0  # seconds


class Delivery(NamedTuple):
    """One delivery of a record."""

    partition: int
    offset: int
    count: int


class Brokers:
    """What the embedded brokers did with each delivery.

    Attributes:
        wrong: Events that should not have happened.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.acquired: dict[Delivery, float] = {}  # loop time
        self.holders: dict[Delivery, str] = {}  # member ids
        self.deadlines: dict[Delivery, float] = {}  # of the locks, in loop time
        self.accepted: set[Delivery] = set()
        self.rejected: set[Delivery] = set()
        self.begun: set[Delivery] = set()
        self.ended: set[Delivery] = set()  # the handler has returned or raised
        self.finished: dict[Delivery, float] = {}  # returned, or accepted before
        self.failed: set[Delivery] = set()  # raised an error that rejects
        self.cancelled: set[Delivery] = set()
        self.cuts: list[tuple[float, int]] = []  # when a partition's leader was unreachable
        self.wrong: list[str] = []
        self.seen: Counter[str] = Counter()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch all share partitions."""
        acquire, acknowledge = SharePartition.acquire, SharePartition.acknowledge

        def acquiring(
            part: SharePartition, request: AcquireRequest, *arguments: Any
        ) -> list[Acquired]:
            ranges = acquire(part, request, *arguments)
            now = self._loop.time()
            for first, last, count in ranges:
                for offset in range(first, last + 1):
                    delivery = Delivery(part.partition.index, offset, count)
                    self.acquired[delivery] = now
                    self.holders[delivery] = request.member_id
                    self.deadlines[delivery] = now + LOCK
            return ranges

        def acknowledging(
            part: SharePartition, member_id: str, ranges: Sequence[AcknowledgedRange]
        ) -> None:
            meant = list(self._meant(part, ranges))
            acknowledge(part, member_id, ranges)
            for delivery, kind in meant:
                self._on_applied(delivery, AcknowledgeType(kind))

        with (
            patch.object(SharePartition, "acquire", acquiring),
            patch.object(SharePartition, "acknowledge", acknowledging),
        ):
            yield

    def _meant(
        self, part: SharePartition, ranges: Sequence[AcknowledgedRange]
    ) -> Iterator[tuple[Delivery, int]]:
        for first, last, types in ranges:
            for offset in range(first, last + 1):
                kind = types[0] if len(types) == 1 else types[offset - first]
                batch = part.records.floor(offset)
                if batch is not None and offset <= batch.last:
                    yield Delivery(part.partition.index, offset, batch.at(offset).count), kind

    def _on_applied(self, delivery: Delivery, kind: AcknowledgeType) -> None:
        """A broker has applied the acknowledgement of a delivery."""
        self.seen[kind.name] += 1
        if kind is AcknowledgeType.RENEW:
            self.deadlines[delivery] = self._loop.time() + LOCK
        elif kind is AcknowledgeType.ACCEPT:
            delivery = self._decided(delivery, self.finished)
            self.accepted.add(delivery)
            if delivery not in self.finished:
                self.wrong.append(f"accepted before its handler has returned: {delivery}")
        elif kind is AcknowledgeType.REJECT:
            delivery = self._decided(delivery, self.failed)
            self.rejected.add(delivery)
            if delivery not in self.failed:
                self.wrong.append(f"rejected although its handler has not failed: {delivery}")
        elif delivery in self.finished:
            self.wrong.append(f"released although its handler has returned: {delivery}")
        elif delivery in self.begun - self.ended - self.cancelled:
            self.wrong.append(f"released while its handler runs: {delivery}")

    def _decided(self, delivery: Delivery, decided: Container[Delivery]) -> Delivery:
        """Return the delivery that the member has decided about.

        A lock may end after the member has sent its decision, or just before. If the same member
        has meanwhile acquired the record again, the broker applies the decision to that delivery.
        """
        before = delivery._replace(count=delivery.count - 1)
        if (
            delivery not in decided
            and before in decided
            and self.holders[before] == self.holders[delivery]
            and self._loop.time() - self.acquired[delivery] < 1.0
            and self.deadlines[before] <= self.acquired[delivery] + 0.001  # the clock's resolution
        ):
            self.seen["decided at the end of the lock"] += 1
            return before
        return delivery

    def cut(self, *partitions: int) -> None:
        """The sessions with the leaders of these partitions end now, or soon."""
        self.cuts += [(self._loop.time(), partition) for partition in partitions]

    def was_cut(self, delivery: Delivery) -> bool:
        return any(
            partition == delivery.partition and at >= self.acquired[delivery] - 1.0
            for at, partition in self.cuts
        )

    def check_finished(self) -> None:
        """Everything that was finished is accepted, unless its lock had ended."""
        for delivery, at in self.finished.items():
            if delivery in self.accepted:
                self.seen["finished and accepted"] += 1
            elif self.was_cut(delivery):
                self.seen["finished and cut off"] += 1
            elif self.deadlines[delivery] - at < 1.0:
                self.seen["finished too late"] += 1
            else:
                self.wrong.append(f"finished and not accepted: {delivery}")
