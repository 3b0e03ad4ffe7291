"""State of a subscription between `unsubscribe` and the revocation of its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.group.assignment_lease import AssignmentLease
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition


@dataclass(slots=True)
class Parting:
    """The remainder of a subscription after `unsubscribe`.

    Attributes:
        offsets: The application's positions at `unsubscribe`.
        done: The positions of processed records, to commit before the partitions are revoked.
        listener: The listener to call.
        notified: True once the call of the listener has started.
        lease: Valid while the listener runs, which may still commit.
        settled: Set once `done` is committed, or is no longer waited for.
    """

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    done: Mapping[TopicPartition, OffsetAndMetadata]
    listener: ConsumerRebalanceListener | None
    notified: bool = False
    lease: AssignmentLease = field(default_factory=AssignmentLease)
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    def done_of(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the processed positions of these partitions."""
        return {tp: at for tp, at in self.done.items() if tp in partitions}
