"""Reads, timers, commits, rebalances and a slow coordinator, in any order: a commit never covers
too much, committed offsets never go back, and at the end everything is committed."""

import asyncio
from collections.abc import Collection, Mapping
from random import Random

import pytest

from aiokafka_lite.errors import CommitFailedError, KafkaError, KafkaTimeoutError
from aiokafka_lite.group.membership import CommitIdentity
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition
from tests.seeds import seeds
from tests.unit.consumer.commits.test_auto_commit import ME, Rig, Store
from tests.unit.consumer.makers import until

PARTITIONS = [TopicPartition("t", number) for number in range(3)]


class Dawdling(Store):
    """Is slow, sometimes refuses, and keeps the commits in force."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.fails = 0.2
        self.in_force: dict[TopicPartition, int] = {}

    async def receive(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], who: CommitIdentity | None
    ) -> None:
        assert who == ME
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)
        if self.random.random() < self.fails:
            raise KafkaTimeoutError("the coordinator")
        for tp, told in offsets.items():
            assert told.offset >= self.in_force.get(tp, 0), "it went back"
            self.in_force[tp] = told.offset
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)


class Application:
    """Reads, processes its records, and loses and gains partitions."""

    def __init__(self, rig: Rig, store: Dawdling, random: Random) -> None:
        self.rig = rig
        self.store = store
        self.random = random
        self.given = dict.fromkeys(PARTITIONS, 0)
        self.done = dict.fromkeys(PARTITIONS, 0)  # before the last read
        self.own(PARTITIONS)

    def own(self, partitions: Collection[TopicPartition]) -> None:
        self.rig.own(*partitions)
        for state in self.rig.positions:
            if state.position is None:
                # As another member would: from the committed offsets.
                self.given[state.tp] = self.done[state.tp] = self.store.in_force.get(state.tp, 0)
                state.seek(self.given[state.tp])

    def check(self) -> None:
        """No record that is still processed was committed automatically."""
        for tp, offset in self.store.in_force.items():
            assert offset <= self.done[tp], f"{tp} is committed too far"

    async def read(self) -> None:
        self.done = dict(self.given)
        self.rig.commits.on_read(waiting=False)
        if self.random.random() < 0.3:
            self.rig.commits.on_read(waiting=True)
            await asyncio.sleep(self.random.choice((0, 0.002)))
            self.rig.commits.on_read(waiting=False)
        owned = sorted(self.rig.positions.partitions())
        if owned:
            tp = self.random.choice(owned)
            self.given[tp] += self.random.randrange(1, 5)
            self.rig.give(tp, self.given[tp])

    async def commit(self) -> None:
        self.done = dict(self.given)
        try:
            await self.rig.commits.commit(None, self.rig.soon)
        except CommitFailedError:
            raise
        except KafkaError:
            return
        for tp in self.rig.positions.partitions():
            assert self.store.in_force[tp] == self.given[tp]

    async def rebalance(self) -> None:
        gone = {tp for tp in self.rig.positions.partitions() if self.random.random() < 0.5}
        self.done.update({tp: self.given[tp] for tp in gone})
        await self.rig.commits.before_revoke(gone, self.rig.soon)
        kept = self.rig.positions.partitions() - gone
        self.own(kept)
        self.own(kept | {tp for tp in PARTITIONS if self.random.random() < 0.5})

    async def rest(self) -> None:
        await asyncio.sleep(self.random.choice((0, 0, 0.001, 0.003)))


@pytest.mark.parametrize("seed", seeds(40))
async def test_in_any_order(seed: int) -> None:
    random = Random(seed)
    rig = Rig()
    store = rig.store = Dawdling(random)
    rig.commits._committer._store = store  # type: ignore[assignment]  # for what the test needs
    rig.options.auto_commit_interval = 0.001
    rig.own()
    application = Application(rig, store, random)
    steps = [application.read] * 6 + [application.commit, application.rebalance, application.rest]
    for _ in range(120):
        await random.choice(steps)()
        application.check()
    store.fails = 0.0
    # Automatically, after some time: everything that is processed.
    rig.commits.on_read(waiting=True)
    application.done = dict(application.given)
    owned = rig.positions.partitions()
    await until(lambda: all(store.in_force.get(tp, 0) == application.given[tp] for tp in owned))
    application.check()
    await application.read()
    await rig.commits.at_close(rig.soon)
    assert {tp: store.in_force.get(tp, 0) for tp in owned} == {
        tp: application.given[tp] for tp in owned
    }
    await rig.tasks.close(rig.soon)
    assert not rig.mistakes
