"""A model of the transaction coordinator, the group coordinator and the partitions: a machine's
requests, and what is stored at the end, in both generations of the protocol.

It is small enough to be obviously correct; other tests check the whole producer with the more
complete embedded broker.
"""

from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.group.membership import GroupMetadata
from aiokafka_lite.producer.transactions.transaction_steps import (
    AddOffsets,
    AddPartitions,
    Answer,
    CommitOffsets,
    EndTransaction,
    InitProducer,
    ProducerIdAndEpoch,
    Step,
)
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

NAME = "payments"
PLACE = (CoordinatorKind.TRANSACTION, NAME)
GROUP = GroupMetadata("readers", 1, "m", None)

INVALID_EPOCH, NO_TRANSACTION, CONCURRENT, FENCED, ABORTABLE = 47, 48, 51, 90, 120


def offsets(number: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition("in", 0): OffsetAndMetadata(number, "")}


class Coordinator:
    """The coordinator of one transactional id.

    Attributes:
        level: The level of `transaction.version`.
        committed, aborted: The tags (numbers of transactions) of the stored records.
    """

    def __init__(self, level: int) -> None:
        self.level = level
        self.producer_id, self.epoch = 7, -1
        self.state = "empty"
        self.last_epoch = -1
        self.partitions: set[TopicPartition] = set()
        self.groups: set[str] = set()
        self.open: list[int] = []
        self.committed: list[int] = []
        self.aborted: list[int] = []

    @property
    def stamp(self) -> ProducerIdAndEpoch:
        return self.producer_id, self.epoch

    def carry_out(self, step: Step, tag: int) -> Answer:
        match step:
            case InitProducer(identity=identity):
                return self._init(identity)
            case AddPartitions(partitions=partitions):
                code = self._check(step.identity)
                if not code:
                    self.state = "ongoing"
                    self.partitions |= partitions
                return Answer(partitions=dict.fromkeys(partitions, code))
            case AddOffsets(group_id=group_id):
                code = self._check(step.identity)
                if not code:
                    self.state = "ongoing"
                    self.groups.add(group_id)
                return Answer(code)
            case CommitOffsets():
                return self._commit_offsets(step, tag)
            case EndTransaction():
                return self._end(step)
        raise AssertionError(step)

    def write(self, partition: TopicPartition, stamp: ProducerIdAndEpoch, tag: int) -> int:
        """Store a batch; return the error code."""
        if stamp != self.stamp:
            return INVALID_EPOCH
        if self.level >= 2 and self.implicit_epoch(stamp):
            self.partitions.add(partition)
            self.state = "ongoing"
        assert partition in self.partitions, f"{partition} is written to, and was not added"
        assert self.state == "ongoing"
        self.open.append(tag)
        return 0

    def implicit_epoch(self, stamp: ProducerIdAndEpoch) -> bool:
        """The request determines a batch's generation; see the test's sender."""
        return self.writes_add

    writes_add = False

    def take_over(self) -> None:
        """Start another producer with the same transactional id."""
        if self.state == "ongoing":
            self._finish(committed=False)
        self.last_epoch = -1
        self.epoch += 1

    def _init(self, identity: ProducerIdAndEpoch) -> Answer:
        if self.state == "ongoing":
            self._finish(committed=False)
            self.epoch += 1
            return Answer(CONCURRENT)
        if identity != (-1, -1):
            if identity == (self.producer_id, self.last_epoch) and self.last_epoch >= 0:
                return Answer(identity=self.stamp)
            if identity != self.stamp:
                return Answer(FENCED)
            self.last_epoch = self.epoch
        self.epoch += 1
        return Answer(identity=self.stamp)

    def _check(self, identity: ProducerIdAndEpoch) -> int:
        return 0 if identity == self.stamp else FENCED

    def _commit_offsets(self, step: CommitOffsets, tag: int) -> Answer:
        code = INVALID_EPOCH if step.identity != self.stamp else 0
        if not code and step.implicit:
            self.state = "ongoing"
        elif not code and step.order.group.group_id not in self.groups:
            code = ABORTABLE
        if not code:
            self.open.append(tag)
        return Answer(partitions=dict.fromkeys(step.offsets, code))

    def _end(self, step: EndTransaction) -> Answer:
        wanted = "committed" if step.committed else "aborted"
        if step.implicit:
            repeated = step.identity == (self.producer_id, self.last_epoch)
            if repeated and self.state == wanted:
                return Answer(identity=self.stamp)
            if step.identity != self.stamp:
                return Answer(NO_TRANSACTION if repeated else FENCED)
            if self.state != "ongoing" and step.committed:
                return Answer(NO_TRANSACTION)
            self._finish(committed=step.committed)
            self.last_epoch = self.epoch
            self.epoch += 1
            return Answer(identity=self.stamp)
        if step.identity != self.stamp:
            return Answer(FENCED)
        if self.state == "ongoing":
            self._finish(committed=step.committed)
        elif self.state != wanted:
            return Answer(NO_TRANSACTION)
        return Answer()

    def _finish(self, *, committed: bool) -> None:
        self.state = "committed" if committed else "aborted"
        (self.committed if committed else self.aborted).extend(self.open)
        self.open.clear()
        self.partitions.clear()
        self.groups.clear()
