"""The records and acknowledgements of a chaos run, and the check of the final logs.

Each record has a number, which its value begins with, and a lane: the sender (and so the key, where
there is one) whose records must keep their order in each partition. Records that a stopped producer
abandoned as possibly written may still be in transit when the next producer sends.
"""

from array import array
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum

from aiokafka_lite.errors import KafkaError
from aiokafka_lite.structs import RecordMetadata

__all__ = ["Ledger", "Log", "Outcome", "claims_not_written"]

_FILLER = bytes(range(32, 127)) * 400

Log = Mapping[int, Iterable[tuple[int, bytes]]]
"""Partition to (offset, value) of all its records, by offset."""


class Outcome(IntEnum):
    """The outcome of a record as reported by the producer."""

    PENDING = 0
    ACKED = 1
    NOT_WRITTEN = 2  # an error that states this, or one of `send` itself
    UNKNOWN = 3  # an error that states that it may be written, or its ack was not awaited


def claims_not_written(error: BaseException) -> bool:
    """True if an ack's error states, by class or text, that the record is not stored."""
    said = str(error)
    if "MAY have been written" in said:
        return False
    return "not written" in said or not (isinstance(error, KafkaError) and error.ambiguous)


class Ledger:
    """One compact entry per record, of which there are millions."""

    def __init__(self) -> None:
        self.outcomes = bytearray()
        self.errors: Counter[str] = Counter()
        self._topics: list[str] = []
        self._lanes = array("i")
        self._of_topic = bytearray()
        self._partitions = array("i")
        self._offsets = array("q")
        self._begins: list[int] = []  # the first record of each producer

    def __len__(self) -> int:
        return len(self.outcomes)

    def next_producer(self) -> None:
        """Records entered from here on are sent by another producer."""
        self._begins.append(len(self))

    def enter(self, topic: str, lane: int) -> tuple[int, bytes]:
        """The number and value of a new record, of varying size."""
        if topic not in self._topics:
            self._topics.append(topic)
        number = len(self.outcomes)
        self.outcomes.append(Outcome.PENDING)
        self._lanes.append(lane)
        self._of_topic.append(self._topics.index(topic))
        self._partitions.append(-1)
        self._offsets.append(-1)
        return number, self._value(number)

    @staticmethod
    def _value(number: int) -> bytes:
        kind = number * 2654435761 % 1000
        size = 20_000 if kind == 0 else 1_500 if kind < 20 else kind % 200
        return b"%012d " % number + _FILLER[kind % 95 : kind % 95 + size]

    def acked(self, number: int, told: RecordMetadata) -> None:
        self.outcomes[number] = Outcome.ACKED
        self._partitions[number] = told.partition
        self._offsets[number] = told.offset

    def failed(self, number: int, error: BaseException) -> None:
        """Its ack raised."""
        not_written = claims_not_written(error)
        self.outcomes[number] = Outcome.NOT_WRITTEN if not_written else Outcome.UNKNOWN
        says = "not written" if not_written else "maybe written"
        self.errors[f"{type(error).__name__} ({says})"] += 1

    def refused(self, number: int, error: BaseException) -> None:
        """`send` raised: it never was in a batch."""
        self.outcomes[number] = Outcome.NOT_WRITTEN
        self.errors[f"{type(error).__name__} (refused)"] += 1

    def abandoned(self, number: int) -> None:
        """Its sender was cancelled while it waited."""
        self.outcomes[number] = Outcome.UNKNOWN
        self.errors["cancelled"] += 1

    def counts(self) -> dict[str, int]:
        told = Counter(self.outcomes)
        return {outcome.name: told[outcome] for outcome in Outcome}

    def judge(self, logs: Mapping[str, Log]) -> list[str]:
        """Descriptions of all problems; empty if there are none.

        Args:
            logs: Topic to all records of its partitions.
        """
        wrong: list[str] = []
        seen = bytearray(len(self))
        for topic, log in logs.items():
            for partition, records in log.items():
                self._judge_partition(topic, partition, records, seen, wrong)
        for number, outcome in enumerate(self.outcomes):
            if outcome == Outcome.ACKED and not seen[number]:
                wrong.append(f"lost: {self._described(number)} was acknowledged and is nowhere")
            elif outcome == Outcome.NOT_WRITTEN and seen[number]:
                wrong.append(f"dishonest: {self._described(number)} is there")
            elif outcome == Outcome.PENDING:
                wrong.append(f"forgotten: {self._described(number)} has no outcome")
        return wrong

    def _judge_partition(
        self,
        topic: str,
        partition: int,
        records: Iterable[tuple[int, bytes]],
        seen: bytearray,
        wrong: list[str],
    ) -> None:
        where = f"{topic}-{partition}"
        last: dict[tuple[int, int], int] = {}  # lane and producer -> number
        expected = 0
        for offset, value in records:
            if offset != expected:
                wrong.append(f"gap: {where} goes from {expected - 1} to {offset}")
            expected = offset + 1
            number = int(value[:12])
            if value != self._value(number) or self._topics[self._of_topic[number]] != topic:
                wrong.append(f"garbled: {where} at {offset} holds {value[:40]!r}")
                continue
            if seen[number]:
                wrong.append(f"twice: {self._described(number)} is in {where} at {offset}, too")
            seen[number] = 1
            lane = self._lanes[number], bisect(self._begins, number)
            if last.get(lane, -1) >= number:
                wrong.append(
                    f"out of order: {self._described(number)} in {where} at {offset} comes after "
                    f"{last[lane]} of the same key"
                )
            last[lane] = number
            if self.outcomes[number] == Outcome.ACKED:
                told = (self._partitions[number], self._offsets[number])
                if told[0] != partition or told[1] not in (-1, offset):
                    wrong.append(f"misplaced: {self._described(number)} is in {where} at {offset}")

    def _described(self, number: int) -> str:
        told = Outcome(self.outcomes[number]).name
        at = f"{self._partitions[number]}@{self._offsets[number]}"
        return f"record {number} of lane {self._lanes[number]} ({told} {at})"
