"""The producer's id and epoch, and its sequence numbers (KIP-98, KIP-360): sans-IO.

A broker keeps the sequence numbers of the last five batches of a producer id in each partition. It
answers a duplicate like the original, and refuses a batch that leaves a gap. So a batch may be
retried whenever its outcome is unknown, with several in flight, and every record is stored once and
in order.

`ProducerIdentity` belongs to the producer: it has no id yet, has an id, or needs none. `Sequences`
belongs to one partition: the (id, epoch) under which it numbers its batches, and the next number.

Non-obvious:
- A batch gets its number when it is first sent, and keeps it through every retry. It is numbered
  again only after the broker has definitely refused it, never while it may be stored.
- A batch whose delivery timed out may be stored, or may leave a gap. The batches
  behind it keep their numbers. The gap is certain only when the broker refuses the oldest
  unacknowledged batch. Then the partition's epoch is bumped, which also fences batches of the old
  epoch that are still in transit, and numbers start at 0 again.
- A new numbering begins only while no batch of the partition is in flight, and sends one batch at a
  time until the broker has stored the first. A broker without state for a producer id accepts any
  first number, so a second batch in flight could overtake a first one that was refused. The same
  applies if a topic was deleted and recreated: batches for the old topic must land before any batch
  follows, and then batches are sent one at a time. Brokers that add a partition to a transaction
  themselves keep the lowest number that they have received, and refuse a later one that arrives
  first (KIP-890). With these, the batches of a transaction need not wait.
- Epochs are bumped per partition: a broker keeps (id, epoch, sequence) for each partition
  and does not compare partitions. When an epoch runs out the producer requests a new id.
- Only the coordinator bumps a transactional producer's epoch, for all partitions together. The
  partitions written under the old epoch begin a new numbering once none of their batches is in
  flight.
"""

from enum import Enum
from typing import Final

from aiokafka_lite.errors import IllegalStateError, KafkaProtocolError

__all__ = [
    "IN_FLIGHT_LIMIT",
    "LAST_SEQUENCE",
    "ProducerIdentity",
    "Sequences",
    "TransactionalIdentity",
    "checked_stamp",
]

IN_FLIGHT_LIMIT: Final = 5  # batches of a partition that a broker keeps, to detect duplicates
LAST_SEQUENCE: Final = 0x7FFFFFFF
_LAST_EPOCH: Final = 0x7FFF


def checked_stamp(producer_id: int, epoch: int) -> tuple[int, int]:
    """Return the producer id and epoch that a broker assigned.

    Raises:
        KafkaProtocolError: One of them is negative. Brokers do not deduplicate batches that carry
            a negative producer id, so a retry could be stored twice.
    """
    if producer_id < 0 or epoch < 0:
        raise KafkaProtocolError(
            f"The broker returned an invalid producer id: {producer_id}, epoch {epoch}"
        )
    return producer_id, epoch


class IdentityState(Enum):
    """State of the producer id."""

    OFF = "off"  # not requested, or not available from the cluster: batches carry no numbers
    WANTED = "wanted"  # requested; nothing is sent before it is assigned
    KNOWN = "known"


class ProducerIdentity:
    """The producer's id and epoch.

    Args:
        wanted: True if the producer is idempotent.

    Attributes:
        state: State of the id.
        settled: True if batches may be sent: there is an id, or none is needed.
        numbering: True if batches carry numbers.
    """

    transactional = False
    """True if ids and epochs come only from a transaction coordinator."""
    implicit = False
    """True if a batch adds its partition to the open transaction (KIP-890, part 2)."""

    def __init__(self, wanted: bool) -> None:
        self._become(IdentityState.WANTED if wanted else IdentityState.OFF)
        self.producer_id = -1
        self.epoch = -1

    def _become(self, state: IdentityState) -> None:
        # Attributes, not properties: they are read several times per batch.
        self.state = state
        self.settled = state is not IdentityState.WANTED
        self.numbering = state is IdentityState.KNOWN

    def on_assigned(self, producer_id: int, epoch: int) -> None:
        """The cluster assigned an id (InitProducerId)."""
        if self.state is IdentityState.WANTED:
            self.producer_id = producer_id
            self.epoch = epoch
            self._become(IdentityState.KNOWN)

    def on_unavailable(self) -> None:
        """The cluster assigns no ids: continue without one."""
        self._become(IdentityState.OFF)

    def renew(self) -> None:
        """Request another id: its epochs ran out, or a broker rejects it."""
        if self.state is IdentityState.KNOWN:
            self._become(IdentityState.WANTED)


class TransactionalIdentity(ProducerIdentity):
    """The identity of a transactional producer, assigned and renewed by its coordinator."""

    transactional = True

    def __init__(self) -> None:
        super().__init__(True)

    @property
    def stamp(self) -> tuple[int, int]:
        """Producer id and epoch; both are -1 before they are assigned."""
        return self.producer_id, self.epoch

    def take(self, stamp: tuple[int, int]) -> None:
        """The coordinator assigned an id or a new epoch."""
        self.producer_id, self.epoch = stamp
        self._become(IdentityState.KNOWN)

    def renew(self) -> None:
        """Raise, because only the coordinator can renew the id."""
        raise IllegalStateError(
            "only the transaction coordinator renews the id of a transactional producer"
        )


class Sequences:
    """The numbering of one partition's batches.

    Args:
        identity: The producer's identity.
    """

    __slots__ = ("_doubted_until", "_identity", "broken", "confirmed", "next_sequence", "stamp")

    def __init__(self, identity: ProducerIdentity) -> None:
        self._identity = identity
        self.stamp = (identity.producer_id, identity.epoch)
        """The (producer id, epoch) of the current numbering."""
        self.next_sequence = 0
        self.broken = False
        """True if the broker refused the oldest number: a new numbering must begin."""
        self.confirmed = identity.implicit
        """True if the broker stored a batch of this numbering, or refuses any that overtakes it."""
        self._doubted_until = 0  # the first number that only the current topic can have received

    @property
    def producer_id(self) -> int:
        return self.stamp[0]

    @property
    def epoch(self) -> int:
        return self.stamp[1]

    @property
    def stale(self) -> bool:
        """True if a new numbering must begin as soon as nothing is in flight."""
        return self.broken or self.stamp[0] != self._identity.producer_id

    def take(self, count: int) -> int:
        """Return the number of the next batch, which has `count` records."""
        base = self.next_sequence
        self.next_sequence = (base + count) & LAST_SEQUENCE  # wraps to 0, as the broker's does
        return base

    def restart(self) -> None:
        """Begin a new numbering; call it only while nothing of the partition is in flight."""
        if self._identity.transactional or self.producer_id != self._identity.producer_id:
            self.stamp = (self._identity.producer_id, self._identity.epoch)
        elif self.broken and self.epoch < _LAST_EPOCH:
            self.stamp = (self.producer_id, self.epoch + 1)
        else:
            return
        self.next_sequence = 0
        self.broken = False
        self.confirmed = self._identity.implicit
        self._doubted_until = 0

    def doubt(self) -> None:
        """Record that the topic may have been recreated, so that brokers have no state of this
        numbering."""
        self.confirmed = False
        self._doubted_until = self.next_sequence

    def on_stored(self, stamp: tuple[int, int], sequence: int) -> None:
        """The broker has stored the batch with this sequence number under `stamp`."""
        if not self.confirmed and stamp == self.stamp:
            self.confirmed = (sequence - self._doubted_until) & LAST_SEQUENCE <= LAST_SEQUENCE // 2

    def on_refused(self) -> None:
        """The broker refused the oldest batch of this numbering that has no outcome yet."""
        self.broken = True
        if self.epoch == _LAST_EPOCH:
            self._identity.renew()  # nothing is sent before the new id is assigned
