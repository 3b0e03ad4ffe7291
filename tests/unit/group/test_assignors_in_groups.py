"""This package's assignors and an application's in changing groups of the embedded broker."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from aiokafka_lite.client import ClusterMetadata
from aiokafka_lite.cluster.metadata import Metadata, Partition, Topic
from aiokafka_lite.coordinator.assignors.range import RangePartitionAssignor
from aiokafka_lite.coordinator.strategy import assignors_of
from aiokafka_lite.group.assignors.interface import LeadingAssignor
from aiokafka_lite.group.classic.machine import ClassicMembership
from aiokafka_lite.group.membership import (
    Assign,
    Elect,
    Lost,
    MembershipOptions,
    RebalanceProtocol,
    Revoke,
    Step,
    TopicLayout,
)
from tests.unit.group.assignors.cases import ASSIGNORS, STICKY
from tests.unit.group.classic_drive import DrivenGroup, Driver


class OfAnApplication(RangePartitionAssignor):
    name = "of-an-application"


def cluster_of(group: DrivenGroup) -> ClusterMetadata:
    """The application's assignor always sees the current layouts."""

    def metadata() -> Metadata:
        return Metadata(
            topics={
                name: Topic(
                    name, partitions={each: Partition(each, 0) for each in range(layout.partitions)}
                )
                for name, layout in group.layouts.items()
            }
        )

    return ClusterMetadata(metadata)


class Member(Driver):
    """A member with assignors under test, the preferred one first."""

    def __init__(
        self, group: DrivenGroup, *assignors: str, topics: Iterable[str] = ("t",), **options: object
    ) -> None:
        super().__init__(group, **options)
        self.choice: dict[str, LeadingAssignor] = {}
        for name in assignors:
            if name in ASSIGNORS:
                self.choice[name] = ASSIGNORS[name]()
            else:
                (self.choice[name],) = assignors_of([OfAnApplication], cluster_of(group))
        given = MembershipOptions(group.name, **options)
        self.machine = ClassicMembership(given, list(self.choice.values()))
        self.machine.on_metadata(group.layouts, group.now)
        self.machine.on_subscription(frozenset(topics), group.now)

    def _begin(self, step: Step, now: float) -> None:
        if isinstance(step, Elect):
            self.assignor = self.choice[step.protocol]
        super()._begin(step, now)


every = pytest.mark.parametrize("assignor", [*ASSIGNORS, OfAnApplication.name])


@every
def test_members_come_and_go_and_die(assignor: str) -> None:
    """No partition ever has two owners, and none is left out: `DrivenGroup` checks it."""
    chance = random.Random(20261121)
    group = DrivenGroup(partitions=9)
    group.layouts["u"] = TopicLayout(4)
    Member(group, assignor, topics=("t", "u"))
    group.run_until_stable()
    for _ in range(25):
        living = group.alive
        what = chance.random()
        if what < 0.5 or len(living) == 1:
            Member(group, assignor, topics=("t", "u") if chance.random() < 0.6 else ("t",))
        elif what < 0.8:
            chance.choice(living).machine.close(group.now)
        else:
            chance.choice(living).alive = False
        if not any("u" in member.machine.watched_topics for member in group.alive):
            Member(group, assignor, topics=("t", "u"))
        group.run_until_stable(120.0)
    assert not any(member.told(Lost) for member in group.drivers)


@pytest.mark.parametrize("assignor", STICKY)
def test_partitions_that_need_not_move_stay(assignor: str) -> None:
    group = DrivenGroup(partitions=12)
    members = [Member(group, assignor) for _ in range(3)]
    group.run_until_stable()
    before = [member.held for member in members]
    assert [len(held) for held in before] == [4, 4, 4]
    newcomer = Member(group, assignor)
    group.run_until_stable()
    assert len(newcomer.held) == 3
    for member, held in zip(members, before, strict=True):
        assert member.held < held
    before = [member.held for member in members]
    newcomer.machine.close(group.now)
    group.run_until_stable()
    for member, held in zip(members, before, strict=True):
        assert member.held > held


def test_cooperative_members_keep_partitions_that_do_not_move() -> None:
    group = DrivenGroup(partitions=12)
    members = [Member(group, "cooperative-sticky") for _ in range(2)]
    group.run_until_stable()
    for member in members:
        member.steps.clear()
    newcomer = Member(group, "cooperative-sticky")
    group.run_until_stable()
    taken = frozenset[object]()
    for member in members:
        (revoked,) = member.told(Revoke)
        assert len(revoked.partitions) == 2
        taken |= revoked.partitions
        assert not any(step.added for step in member.told(Assign))
    assert newcomer.held == taken


def test_a_group_changes_from_eager_to_cooperative_by_two_rolling_restarts() -> None:
    """The upgrade of KIP-429: first both assignors in each member, then without the eager one."""
    group = DrivenGroup(partitions=6)
    members = [Member(group, "range") for _ in range(2)]
    group.run_until_stable()
    for assignors in (("range", "cooperative-sticky"), ("cooperative-sticky",)):
        restarted = []
        for leaving in members:
            leaving.machine.close(group.now)
            restarted.append(Member(group, *assignors))
            group.run_until_stable()
        members = restarted
    assert {member.machine.rebalance_protocol for member in members} == {
        RebalanceProtocol.COOPERATIVE
    }
    assert [len(member.held) for member in members] == [3, 3]
