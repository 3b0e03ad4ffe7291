"""Who a producer is to the brokers, and the numbers of its batches (KIP-98, KIP-360): sans-IO.

A broker remembers the last five batches of a producer id in each partition. A batch that comes a
second time is answered as it was the first time, and one that leaves a gap is refused; so a batch
may be sent again whenever its outcome is not known, with several in flight, and every record is
stored once and in order.

`ProducerIdentity` is the producer's: no id yet, an id, or none wanted. `Sequences` is one
partition's: under which (id, epoch) it numbers its batches, and the next number.

Non-obvious:
- A batch gets its number when it is first sent, and keeps it through every retry. It is numbered
  anew only after the broker has refused it for certain, never while it may be stored.
- A batch that was given up (its delivery timed out) may leave a gap, or not: it may be stored. The
  batches behind it keep their numbers and find out. Only when the broker refuses the oldest batch
  not yet acknowledged is the gap a fact; then the partition's epoch is bumped, which also fences
  whatever of the old epoch is still on its way, and numbers start at 0 again.
- A new numbering begins only while nothing of the partition is in flight, and goes one batch at a
  time until the broker has stored the first: a broker that knows nothing of a producer id takes
  any first number, so a second batch in flight could overtake a first one that was refused. The
  same where a topic was deleted and made again: no batch follows those that were meant for the old
  one before they have landed, and then they go one at a time. Brokers that add a partition to a
  transaction themselves remember the lowest number they were shown by then, and refuse a later one
  that comes first (KIP-890): there the batches of a transaction need not wait.
- Epochs are bumped a partition at a time: a broker keeps (id, epoch, sequence) for each partition
  alone and does not compare partitions. When an epoch runs out the producer asks for a new id.
- A transactional producer's epoch is its coordinator's to bump, for all partitions together. The
  partitions written to under the old one are told to begin anew when nothing of them is in flight.
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

IN_FLIGHT_LIMIT: Final = 5  # batches of a partition that a broker can tell duplicates of
LAST_SEQUENCE: Final = 0x7FFFFFFF
_LAST_EPOCH: Final = 0x7FFF


def checked_stamp(producer_id: int, epoch: int) -> tuple[int, int]:
    """The producer id and epoch that a broker assigned.

    Raises:
        KafkaProtocolError: One of them is negative. Brokers do not deduplicate batches that carry
            a negative producer id, so a retry could be stored twice.
    """
    if producer_id < 0 or epoch < 0:
        raise KafkaProtocolError(
            f"The broker assigns an impossible producer id {producer_id} with epoch {epoch}"
        )
    return producer_id, epoch


class IdentityState(Enum):
    """What is known of the producer id."""

    OFF = "off"  # none wanted, or the cluster gives none: batches carry no numbers
    WANTED = "wanted"  # asked for; nothing is sent before it is there
    KNOWN = "known"


class ProducerIdentity:
    """The producer's id, and since when it is valid.

    Args:
        wanted: Whether the producer is idempotent.

    Attributes:
        state: What is known of it.
        settled: Whether batches may be sent: there is an id, or there need be none.
        numbering: Whether batches carry numbers.
    """

    transactional = False
    """Ids and epochs come from a transaction coordinator, and from nowhere else."""
    implicit = False
    """A batch makes its partition part of the open transaction (KIP-890, part 2)."""

    def __init__(self, wanted: bool) -> None:
        self._become(IdentityState.WANTED if wanted else IdentityState.OFF)
        self.producer_id = -1
        self.epoch = -1

    def _become(self, state: IdentityState) -> None:
        # Attributes, not properties: every batch asks several times.
        self.state = state
        self.settled = state is not IdentityState.WANTED
        self.numbering = state is IdentityState.KNOWN

    def on_assigned(self, producer_id: int, epoch: int) -> None:
        """The cluster gave an id (InitProducerId)."""
        if self.state is IdentityState.WANTED:
            self.producer_id = producer_id
            self.epoch = epoch
            self._become(IdentityState.KNOWN)

    def on_unavailable(self) -> None:
        """The cluster gives no ids: go on without."""
        self._become(IdentityState.OFF)

    def renew(self) -> None:
        """The id is of no more use (its epochs ran out, or a broker disowns it): get another."""
        if self.state is IdentityState.KNOWN:
            self._become(IdentityState.WANTED)


class TransactionalIdentity(ProducerIdentity):
    """The identity of a transactional producer: its coordinator gives it, again and again."""

    transactional = True

    def __init__(self) -> None:
        super().__init__(True)

    @property
    def stamp(self) -> tuple[int, int]:
        """Producer id and epoch; -1 both before there are any."""
        return self.producer_id, self.epoch

    def take(self, stamp: tuple[int, int]) -> None:
        """The coordinator gave an id, or a new epoch."""
        self.producer_id, self.epoch = stamp
        self._become(IdentityState.KNOWN)

    def renew(self) -> None:
        """Nobody but the coordinator can do that."""
        raise IllegalStateError("a transactional producer keeps its id until it is given another")


class Sequences:
    """The numbering of one partition's batches.

    Args:
        identity: The producer's.
    """

    __slots__ = ("_doubted_until", "_identity", "broken", "confirmed", "next_sequence", "stamp")

    def __init__(self, identity: ProducerIdentity) -> None:
        self._identity = identity
        self.stamp = (identity.producer_id, identity.epoch)
        """(producer id, epoch) under which batches are numbered now."""
        self.next_sequence = 0
        self.broken = False
        """The broker refused the oldest number: a new numbering must begin."""
        self.confirmed = identity.implicit
        """The broker has stored a batch of this numbering, or refuses any that overtakes it."""
        self._doubted_until = 0  # the first number that the partition of now alone can have got

    @property
    def producer_id(self) -> int:
        return self.stamp[0]

    @property
    def epoch(self) -> int:
        return self.stamp[1]

    @property
    def stale(self) -> bool:
        """A new numbering is to begin, as soon as nothing is in flight."""
        return self.broken or self.stamp[0] != self._identity.producer_id

    def take(self, count: int) -> int:
        """The number of the next batch, of `count` records."""
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
        """The partition may be another of the same name by now, that knows nothing of this."""
        self.confirmed = False
        self._doubted_until = self.next_sequence

    def on_stored(self, stamp: tuple[int, int], sequence: int) -> None:
        """The broker has stored a batch that was numbered so, under `stamp`."""
        if not self.confirmed and stamp == self.stamp:
            self.confirmed = (sequence - self._doubted_until) & LAST_SEQUENCE <= LAST_SEQUENCE // 2

    def on_refused(self) -> None:
        """The broker refused the oldest batch of this numbering that has no outcome yet."""
        self.broken = True
        if self.epoch == _LAST_EPOCH:
            self._identity.renew()  # and nothing is sent before the new id is there
