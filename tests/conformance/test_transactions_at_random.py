"""Several producers send random valid and invalid requests; both brokers must agree at each step.

A seed that neither can finish is not a difference: after a record outside of any transaction with a
later epoch, no broker can write the marker, so the test writes no such record.
"""

from random import Random

import pytest

from aiokafka_lite.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.conformance.conftest import Compare
from tests.conformance.target import Target
from tests.conformance.test_transactions import look, writer_on
from tests.conformance.transactional import Writer, transactional

STEPS = 60
SEEDS = range(8)
ACTIONS = "ppppppeeeeaaioOl"  # repeated by their weight
NOBODY = 5_000_000


class Play:
    """Three writers, two of them of one transactional id."""

    def __init__(self, target: Target, random: Random) -> None:
        self.target = target
        self.random = random
        self.writers: list[Writer] = []
        self.sequences: dict[tuple[str, int], int] = {}
        self.topic = ""
        self.group = ""

    async def begin(self) -> None:
        self.topic = await self.target.topic(2)
        self.group = self.target.unique("group")
        await self.target.coordinator_of(self.group)
        self.writers = [await writer_on(self.target) for _ in range(2)]
        for writer in self.writers:
            await writer.init()
        self.writers.append(Writer(self.target, self.writers[0].name, "third"))

    async def step(self) -> None:
        writer = self.random.choice(self.writers)
        real = writer.producer
        claimed = writer.producer = self._claimed(real)
        await self._act(writer, is_real=claimed == real)
        if writer.producer == claimed:
            writer.producer = real

    async def look(self) -> None:
        """Record the visible records and the group's committed offsets."""
        await look(self.target, self.topic)
        asked = OffsetFetchRequestTopics(self.topic, partition_indexes=[0, 1])
        groups = [OffsetFetchRequestGroup(self.group, topics=[asked])]
        for stable in (False, True):
            await self.target.ask(OffsetFetchRequest(groups=groups, require_stable=stable), 8)

    def _claimed(self, real: tuple[int, int]) -> tuple[int, int]:
        """Usually the writer's own identity."""
        twist = self.random.random()
        if twist < 0.08:
            return (real[0], real[1] + 1)
        if twist < 0.16 and real[1] > 0:
            return (real[0], real[1] - 1)
        if twist > 0.96:
            return (real[0] + NOBODY, real[1])
        return real

    async def _act(self, writer: Writer, *, is_real: bool) -> None:
        random, partition = self.random, self.random.randrange(2)
        match random.choice(ACTIONS):
            case "p" if writer.producer[0] >= 0:
                await self._produce(writer, partition, is_real=is_real)
            case "e":
                version = random.choice([1, 4, 5, 5])
                ended = await writer.end(committed=random.random() < 0.5, version=version)
                if version == 5 and not ended.error_code:
                    self._restart_sequences(writer.name)
            case "a":
                partitions = random.choice([[partition], [0, 1]])
                await writer.add(self.topic, *partitions, version=random.choice([0, 2, 3]))
            case "i":
                expected = random.choice([(-1, -1), writer.producer])
                versions = [0, 4, 5] if expected == (-1, -1) else [3, 4, 5]
                await writer.init(version=random.choice(versions), expected=expected)
                await writer.settled()
            case "o":
                version = random.choice([2, 3, 4, 5, 5])
                offset = random.randrange(100)
                await writer.commit_offsets(
                    self.group, self.topic, offset, version, partition=partition
                )
            case "O":
                await writer.add_offsets(self.group, random.choice([0, 3, 4]))
            case "l":
                await self.look()

    async def _produce(self, writer: Writer, partition: int, *, is_real: bool) -> None:
        random, key = self.random, (writer.name, partition)
        due = self.sequences.get(key, 0)
        sequence = random.choice([*[due] * 6, 0, 0, 0, due + 1, max(due - 1, 0)])
        in_transaction = random.random() > 0.08 or not is_real
        batch = transactional(writer.producer, sequence, transactional=in_transaction)
        version = random.choice([9, 11, 12, 12])
        response = await writer.produce_batch(self.topic, batch, version, partition)
        if not response.responses[0].partition_responses[0].error_code:
            self.sequences[key] = sequence + 1

    def _restart_sequences(self, name: str) -> None:
        for key in self.sequences:
            if key[0] == name:
                self.sequences[key] = 0


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_transactions(compare: Compare, seed: int) -> None:
    async def scenario(target: Target) -> None:
        play = Play(target, Random(seed))
        await play.begin()
        for _ in range(STEPS):
            await play.step()
        await play.look()

    await compare(scenario)
