"""What the open transaction is to hold, and what its coordinator knows of that: sans-IO.

`machine` owns one, for one transaction after the other.
"""

from collections import deque
from collections.abc import Mapping

from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.producer.transactions.transaction_steps import (
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    Identity,
    OffsetsOrder,
    Place,
    Step,
)
from aiokafka_lite.structs import TopicPartition

__all__ = ["Contents"]


class Contents:
    """Partitions, groups and offsets of one transaction.

    Attributes:
        started: The coordinator knows of the transaction, or will by what is being written.
        doubt: Whether something was added is not known: an answer was lost.
        to_add: Partitions that wait to be added.
        added: Partitions that may be written to.
        orders: Offsets that are not part of it yet.
    """

    def __init__(self) -> None:
        self.started = False
        self.doubt = False
        self.to_add: dict[TopicPartition, None] = {}
        self.added: set[TopicPartition] = set()
        self.orders: deque[OffsetsOrder] = deque()
        self._groups: set[str] = set()

    @property
    def unknown(self) -> bool:
        """The coordinator knows of no transaction, and is not to know of one."""
        return not (self.started or self.doubt or self.to_add or self.orders)

    @property
    def doubtful(self) -> bool:
        """The coordinator may know of a transaction, or not."""
        return self.doubt and not self.started

    def next_step(self, place: Place, identity: Identity, implicit: bool) -> Step | None:
        """What is to be added next, if anything.

        Args:
            place: The transactional id's.
            implicit: Groups are added by what is committed (KIP-890, part 2).
        """
        if self.to_add:
            return AddPartitions(place, identity, frozenset(self.to_add))
        if not self.orders:
            return None
        order = self.orders[0]
        group_id = order.group.group_id
        if not implicit and group_id not in self._groups:
            return AddOffsets(place, identity, group_id)
        of_group = (CoordinatorKind.GROUP, group_id)
        return CommitOffsets(of_group, identity, order, dict(order.left), implicit)

    def on_partitions(self, step: AddPartitions) -> None:
        """They were added."""
        for partition in step.partitions:
            self.to_add.pop(partition, None)
        self.added |= step.partitions
        self.started = True

    def on_group(self, step: AddOffsets) -> None:
        """It was added."""
        self._groups.add(step.group_id)
        self.started = True

    def on_offsets(self, step: CommitOffsets, codes: Mapping[TopicPartition, int]) -> bool:
        """Some, or all, are part of the transaction; whether all are."""
        order = step.order
        for partition in step.offsets:
            if codes.get(partition) == 0:
                order.left.pop(partition, None)
        if order.left:
            return False
        order.done = True
        if self.orders and self.orders[0] is order:  # else it was dropped meanwhile
            self.orders.popleft()
        return True

    def drop(self, error: KafkaError) -> None:
        """What was not asked for yet will not be; the error says why."""
        self.to_add.clear()
        while self.orders:
            order = self.orders.popleft()
            order.error = error
            order.done = True

    def forget(self) -> None:
        """The transaction has ended."""
        self.started = False
        self.doubt = False
        self.to_add.clear()
        self.added.clear()
        self._groups.clear()
