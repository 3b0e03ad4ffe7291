"""The contents of the open transaction, and which of them its coordinator has: sans-IO.

`transaction_machine` reuses one `Contents` for all transactions, one after the other.
"""

from collections import deque
from collections.abc import Mapping

from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.producer.transactions.transaction_steps import (
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    CoordinatorKey,
    OffsetsOrder,
    ProducerIdAndEpoch,
    Step,
)
from aiokafka_lite.structs import TopicPartition

__all__ = ["Contents"]


class Contents:
    """Partitions, groups and offsets of one transaction.

    Attributes:
        started: True if the coordinator has the transaction, or batches in flight will add it.
        doubt: True if something may have been added, because an answer was lost.
        to_add: Partitions that wait to be added.
        added: Partitions that may be written to.
        orders: Offsets that are not part of the transaction yet.
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
        """True if the coordinator does not have the transaction and does not need it."""
        return not (self.started or self.doubt or self.to_add or self.orders)

    @property
    def doubtful(self) -> bool:
        """True if it is uncertain whether the coordinator has the transaction."""
        return self.doubt and not self.started

    def next_step(
        self, place: CoordinatorKey, identity: ProducerIdAndEpoch, implicit: bool
    ) -> Step | None:
        """Return the step that adds the next partitions or offsets, if any.

        Args:
            place: The place of the transactional id.
            implicit: True if commits of offsets add their group (KIP-890, part 2).
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
        """The step's partitions were added."""
        for partition in step.partitions:
            self.to_add.pop(partition, None)
        self.added |= step.partitions
        self.started = True

    def on_group(self, step: AddOffsets) -> None:
        """The step's group was added."""
        self._groups.add(step.group_id)
        self.started = True

    def on_offsets(self, step: CommitOffsets, codes: Mapping[TopicPartition, int]) -> bool:
        """Remove accepted offsets from the order; return True if all are accepted."""
        order = step.order
        for partition in step.offsets:
            if codes.get(partition) == 0:
                order.left.pop(partition, None)
        if order.left:
            return False
        order.done = True
        if self.orders and self.orders[0] is order:  # otherwise it was dropped meanwhile
            self.orders.popleft()
        return True

    def drop(self, error: KafkaError) -> None:
        """Drop partitions and offsets that were not added yet; `error` is set on the orders."""
        self.to_add.clear()
        while self.orders:
            order = self.orders.popleft()
            order.error = error
            order.done = True

    def forget(self) -> None:
        """Clear the contents; the transaction has ended."""
        self.started = False
        self.doubt = False
        self.to_add.clear()
        self.added.clear()
        self._groups.clear()
