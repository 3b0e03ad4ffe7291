"""The transactional ids of the cluster, and the coordinator's requests.

A request is decided and its outcome stored immediately, so that no transition is pending. Markers
are also written immediately if the partitions have leaders; otherwise the transaction stays in
PrepareCommit or PrepareAbort until they do.

Source: Kafka's `TransactionCoordinator` and `TransactionStateManager`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from aiokafka_lite.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidRequestError,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionAbortableError,
)
from aiokafka_lite.testing.clock import Clock
from aiokafka_lite.testing.coordinator_table import Coordinators
from aiokafka_lite.testing.storage.journal import Journal
from aiokafka_lite.testing.transactions.ending import must_end
from aiokafka_lite.testing.transactions.marking import Marking
from aiokafka_lite.testing.transactions.offsets_topic import EndOffsets, OffsetSlots
from aiokafka_lite.testing.transactions.producer_ids import ProducerIds
from aiokafka_lite.testing.transactions.transaction import (
    NO_EPOCH,
    NO_PRODUCER,
    ProducerIdentity,
    TopicPartitionKey,
    Transaction,
    TransactionState,
)

if TYPE_CHECKING:
    from aiokafka_lite.testing.topics import Partition

__all__ = ["Transactions"]

KIND: Final = "transaction"  # in the journal
EPOCH_BUMPS_SINCE: Final = 2  # transaction.version
ROUND: Final = 10.0
"""Seconds between attempts that a full disk ends, as between Kafka's checks for timeouts."""


class Transactions:
    """All transactional ids, whichever broker coordinates them.

    Args:
        clock: The clock, with the timers that abort transactions at their timeout.
        journal: Stores the state across restarts.
        coordinators: The coordinators of transactional ids.
        config: Returns the value of an integer broker configuration.
        version: Returns the finalized `transaction.version`.
        partition_of: Returns a partition by topic and number, or None.
        partitions: Returns every partition.
        end_offsets: Called for each marker in `__consumer_offsets`.

    Attributes:
        producer_ids: Assigns producer ids.
        offsets: The transactions' writes to `__consumer_offsets`.
    """

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        coordinators: Coordinators,
        config: Callable[[str], int],
        version: Callable[[], int],
        partition_of: "Callable[[str, int], Partition | None]",
        partitions: "Callable[[], Iterable[Partition]]",
        end_offsets: EndOffsets,
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._config = config
        self._version = version
        self._partitions = partitions
        self.producer_ids = ProducerIds(journal)
        self.offsets = OffsetSlots(end_offsets)
        self._marking = Marking(clock, journal, coordinators, partition_of, self.offsets)
        self._transactions = {
            str(name): Transaction.from_json(str(name), value)
            for (name,), value in journal.entries(KIND)
        }
        coordinators.watchers.add(self._on_coordinators_moved)

    def resume(self) -> None:
        """Resume the transactions of the stopped cluster: start timers, write missing markers."""
        for transaction in list(self._transactions.values()):
            if transaction.state is TransactionState.ONGOING:
                self._watch_timeout(transaction)
            elif transaction.state.is_ending:
                self._mark(transaction)

    def get(self, transactional_id: str) -> Transaction | None:
        """Return the state of an id, or None if it does not exist or has expired."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return None
        expiration_ms = self._config("transactional.id.expiration.ms")
        if transaction.is_expired(self._clock.now_ms(), expiration_ms):
            del self._transactions[transactional_id]
            self._journal.note(KIND, (transactional_id,), None)
            return None
        return transaction

    def all(self) -> Iterable[Transaction]:
        """Return every id that has not expired."""
        found = (self.get(transactional_id) for transactional_id in list(self._transactions))
        return [transaction for transaction in found if transaction is not None]

    def expire_producer_id(self, producer_id: int) -> None:
        """Expire a producer in every partition, as after `producer.id.expiration.ms`.

        Its transactional id and open transactions stay.
        """
        for partition in self._partitions():
            partition.producers.forget(producer_id)

    # Requests of producers

    def check_init(self, transactional_id: str, timeout_ms: int) -> None:
        """Check an InitProducerId request.

        Raises:
            InvalidRequestError: The id is empty.
            InvalidTransactionTimeout: The timeout is not positive, or above
                `transaction.max.timeout.ms`.
        """
        if not transactional_id:
            raise InvalidRequestError("the transactional id must not be empty")
        if not 0 < timeout_ms <= self._config("transaction.max.timeout.ms"):
            raise InvalidTransactionTimeout(f"transaction timeout {timeout_ms} ms is out of range")

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdentity = NO_PRODUCER
    ) -> ProducerIdentity:
        """Assign a producer id and epoch, and fence the previous producer.

        Args:
            transactional_id: A checked transactional id.
            timeout_ms: A checked transaction timeout.
            expected: The current id and epoch of a producer that continues after an error
                (KIP-360).

        Raises:
            ProducerFenced: `expected` is no longer current.
            ConcurrentTransactions: A transaction is open or ending; it is aborted, then retry.
        """
        transaction = self.get(transactional_id)
        if transaction is None:
            transaction = Transaction(transactional_id, self.producer_ids.take(), timeout_ms)
            self._transactions[transactional_id] = transaction
            self._marking.coordinator_epoch(transactional_id)  # starts to count here
        elif not _may_go_on(transaction, expected):
            raise ProducerFenced(f"{expected} is not the current producer of {transactional_id!r}")
        elif transaction.state.is_ending:
            raise ConcurrentTransactions(f"the transaction of {transactional_id!r} is ending")
        elif transaction.state is TransactionState.ONGOING:
            self._abort(transaction)
            raise ConcurrentTransactions(
                f"the transaction of {transactional_id!r} is being aborted"
            )
        self._renew(transaction, timeout_ms, expected)
        self._note(transaction)
        return transaction.producer

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartitionKey],
    ) -> None:
        """Add partitions to a transaction; begin one if none is open.

        Raises:
            InvalidRequestError: The id is empty.
            InvalidProducerIdMapping: It is unknown, or belongs to another producer.
            ProducerFenced: Another epoch is current.
            ConcurrentTransactions: The previous transaction is still ending.
        """
        transaction = self._checked(transactional_id, producer)
        is_open = transaction.state is TransactionState.ONGOING
        if is_open and transaction.partitions.issuperset(partitions):
            return
        with self._storing(transaction):
            transaction.add(partitions, self._clock.now_ms())
        if not is_open:
            self._watch_timeout(transaction)

    def check_partition(
        self, transactional_id: str, producer: ProducerIdentity, partition: TopicPartitionKey
    ) -> None:
        """Check that a partition is part of a producer's transaction (KIP-890, part 1).

        Raises:
            TransactionAbortableError: It is not.
            InvalidRequestError, InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions:
                See `add_partitions`.
        """
        transaction = self._checked(transactional_id, producer)
        if partition not in transaction.partitions:
            raise TransactionAbortableError(
                f"{partition} is not part of the transaction of {transactional_id!r}"
            )

    def end(
        self, transactional_id: str, producer: ProducerIdentity, *, committed: bool, bumps: bool
    ) -> ProducerIdentity:
        """Commit or abort a transaction.

        Args:
            transactional_id: The transactional id.
            producer: The requesting producer.
            committed: True to commit, False to abort.
            bumps: True for EndTxn v5 or later, which ends in a new epoch.

        Returns:
            The producer's next id and epoch; `NO_PRODUCER` if they stay the same.

        Raises:
            InvalidRequestError: The id is empty.
            InvalidProducerIdMapping: It is unknown.
            BrokerResponseError: See `must_end`.
        """
        transaction = self._known(transactional_id)
        if must_end(transaction, producer, committed=committed, bumps=bumps):
            self._decide(transaction, committed=committed, bumps=bumps)
        if not bumps:
            return NO_PRODUCER
        if transaction.next_producer_id >= 0:  # returned although its markers still wait
            return ProducerIdentity(transaction.next_producer_id, 0)
        return transaction.producer

    # Internals

    def _known(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise InvalidRequestError("the transactional id must not be empty")
        transaction = self.get(transactional_id)
        if transaction is None:
            raise InvalidProducerIdMapping(f"transactional id {transactional_id!r} does not exist")
        return transaction

    def _checked(self, transactional_id: str, producer: ProducerIdentity) -> Transaction:
        """Return the transaction to which its producer may add."""
        transaction = self._known(transactional_id)
        if transaction.producer.producer_id != producer.producer_id:
            raise InvalidProducerIdMapping(f"{producer} does not own {transactional_id!r}")
        if transaction.producer.epoch != producer.epoch:
            raise ProducerFenced(f"{producer} is fenced by {transaction.producer}")
        if transaction.state.is_ending:
            raise ConcurrentTransactions(f"the transaction of {transactional_id!r} is ending")
        return transaction

    def _renew(self, transaction: Transaction, timeout_ms: int, expected: ProducerIdentity) -> None:
        """Assign the next epoch or producer id, when no transaction is open."""
        now_ms, current = self._clock.now_ms(), transaction.producer
        is_expected = expected.epoch in (NO_EPOCH, current.epoch)
        last_epoch = NO_EPOCH if expected == NO_PRODUCER else current.epoch
        if current.is_exhausted and is_expected:
            transaction.rotate(self.producer_ids.take(), timeout_ms, last_epoch, now_ms)
        elif current.epoch == NO_EPOCH or is_expected:
            transaction.initialize(timeout_ms, last_epoch, now_ms)
        elif expected.epoch == transaction.last_epoch:
            transaction.refresh(timeout_ms, now_ms)
        else:
            raise ProducerFenced(f"{expected} is fenced by {current}")

    def _abort(self, transaction: Transaction) -> None:
        """Abort the open transaction, so that its producer cannot continue it."""
        bumps = self._version() >= EPOCH_BUMPS_SINCE
        self._decide(transaction, committed=False, bumps=bumps, fences=not bumps)

    def _decide(
        self, transaction: Transaction, *, committed: bool, bumps: bool, fences: bool = False
    ) -> None:
        with self._storing(transaction):
            if fences:
                transaction.fence()
            exhausted = bumps and transaction.producer.is_exhausted
            transaction.prepare(
                self._clock.now_ms(),
                committed=committed,
                bumps=bumps,
                next_producer_id=self.producer_ids.take() if exhausted else NO_PRODUCER.producer_id,
            )
        transaction.cancel_timer()
        self._mark(transaction)

    def _on_coordinators_moved(self) -> None:
        """Write the missing markers again after a change of coordinators."""
        for transaction in list(self._transactions.values()):
            if transaction.state.is_ending:
                self._mark(transaction)

    def _mark(self, transaction: Transaction) -> None:
        try:
            self._marking.mark(transaction, partial(self._complete, transaction))
        except OSError:  # the disk of the data folder is full
            if transaction.state.is_ending:
                self._try_again_later(transaction)
            raise

    def _complete(self, transaction: Transaction) -> None:
        transaction.cancel_timer()
        transaction.complete(self._clock.now_ms())
        self._note(transaction)

    def _watch_timeout(self, transaction: Transaction) -> None:
        if transaction.timer is None:
            left_ms = transaction.start_ms + transaction.timeout_ms - self._clock.now_ms()
            transaction.timer = self._clock.call_later(
                left_ms / 1000, partial(self._on_timeout, transaction)
            )

    def _on_timeout(self, transaction: Transaction) -> None:
        transaction.timer = None
        if transaction.state.is_ending:
            self._mark(transaction)
        elif transaction.state is TransactionState.ONGOING:
            try:
                self._abort(transaction)
            except OSError:
                self._try_again_later(transaction)
                raise

    def _try_again_later(self, transaction: Transaction) -> None:
        """Abort, or write the missing markers, in the next round of Kafka's coordinator."""
        if transaction.timer is None:
            transaction.timer = self._clock.call_later(
                ROUND, partial(self._on_timeout, transaction)
            )

    @contextmanager
    def _storing(self, transaction: Transaction) -> Iterator[None]:
        """Store a change, or undo it: a repeated request must not find it done."""
        before = transaction.to_json()
        try:
            yield
            self._note(transaction)
        except BaseException:
            transaction.restore(before)
            raise

    def _note(self, transaction: Transaction) -> None:
        self._journal.note(KIND, (transaction.transactional_id,), transaction.to_json())


def _may_go_on(transaction: Transaction, expected: ProducerIdentity) -> bool:
    """Return True for the current producer, or one that missed the response with its new id."""
    return (
        expected == NO_PRODUCER
        or transaction.producer.epoch == NO_EPOCH
        or expected.producer_id == transaction.producer.producer_id
        or (expected.producer_id == transaction.previous_producer_id and expected.is_exhausted)
    )
