"""The group driver with both state machines on a real broker, several members in one loop."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from random import Random

import pytest

from aiokafka_lite.errors import FencedInstanceIdError, UnreleasedInstanceIdError
from aiokafka_lite.group.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor
from aiokafka_lite.group.assignors.range_assignor import RangeAssignor
from aiokafka_lite.group.assignors.sticky_assignment import StickyAssignor
from tests.unit.group.crew import Crew, CrewMember, until
from tools.kafka import RealKafka

PARTITIONS = 6

CrewFactory = Callable[..., Crew]


@pytest.fixture
async def make_crew(kafka: RealKafka, topic: Callable[..., str]) -> AsyncIterator[CrewFactory]:
    crews: list[Crew] = []

    def make(**options: object) -> Crew:
        group_id = f"driven-{uuid.uuid4().hex[:12]}"
        name = topic(PARTITIONS)
        crew = Crew(kafka.bootstrap_servers, group_id, name, PARTITIONS, **options)
        crews.append(crew)
        return crew

    yield make
    for crew in crews:
        await crew.end()


@pytest.fixture(params=["range", "sticky", "cooperative", "modern"])
def crew(make_crew: CrewFactory, request: pytest.FixtureRequest) -> Crew:
    if request.param == "modern":
        return make_crew(modern=True)
    return make_crew(new_assignor=ASSIGNORS[request.param])


ASSIGNORS = {
    "range": RangeAssignor,
    "sticky": StickyAssignor,
    "cooperative": CooperativeStickyAssignor,
}


async def test_members_come_and_go(crew: Crew) -> None:
    first = await crew.add()
    await crew.until_settled()
    others = [await crew.add() for _ in range(2)]
    await crew.until_settled()
    await first.stop()
    assert first.machine.closed
    assert not first.held
    await crew.until_settled()
    assert await others[0].driver.leave("unsubscribed", asyncio.get_running_loop().time() + 10)
    await until(lambda: len(others[1].held) == PARTITIONS, lambda: crew.members)
    others[0].subscribe(crew.topic)
    await crew.until_settled()
    assert not any(what == "lost" for member in crew.members for what, _ in member.log)


async def test_all_partitions_are_owned_after_random_events(crew: Crew) -> None:
    """Random joins, leaves, kills, broken connections, slow listeners and restarts."""
    random = Random(11)

    async def dawdle(what: str) -> None:
        await asyncio.sleep(random.choice([0.0, 0.0, 0.3]))

    await crew.add()
    for _ in range(12):
        event = random.choice(["join", "join", "close", "die", "leave", "cut", "rejoin"])
        alive = crew.alive
        victim = random.choice(alive)
        if event == "join" and len(alive) < 5:
            (await crew.add()).listener = dawdle
        elif event == "close" and len(alive) > 1:
            await victim.stop()
        elif event == "die" and len(alive) > 1 and not crew.options.get("modern"):
            await victim.die()  # in the consumer protocol the session lasts 45 s
        elif event == "leave":
            await victim.driver.leave("unsubscribed", asyncio.get_running_loop().time() + 10)
            victim.subscribe(crew.topic)
        elif event == "cut":
            for node in victim.cluster.metadata.brokers:
                victim.cluster.broker(node).disconnect()
        elif event == "rejoin":
            victim.driver.rejoin("a test wants it")
        await asyncio.sleep(random.uniform(0.0, 1.0))
    await crew.until_settled()
    assert not any(member.failures for member in crew.members)


async def test_partitions_of_a_static_member_are_kept_for_it(make_crew: CrewFactory) -> None:
    for modern in (False, True):
        crew = make_crew(modern=modern)
        first = await crew.add(group_instance_id="a")
        second = await crew.add(group_instance_id="b")
        await crew.until_settled()
        held, told = first.held, len(second.log)
        await first.stop()
        again = await crew.add(group_instance_id="a")
        await until(lambda: again.held == held, lambda: crew.members)  # noqa: B023  # at once
        assert len(second.log) == told


async def test_two_members_of_one_instance_id(make_crew: CrewFactory) -> None:
    for modern, error in ((False, FencedInstanceIdError), (True, UnreleasedInstanceIdError)):
        crew = make_crew(modern=modern)
        first = await crew.add(group_instance_id="a")
        await crew.until_settled()
        second = await crew.add(group_instance_id="a")
        fails = second if modern else first
        await until(lambda: bool(fails.failures), lambda: crew.members)  # noqa: B023  # at once
        assert isinstance(fails.failures[0], error)


async def test_pattern_resolved_by_the_broker(make_crew: CrewFactory) -> None:
    crew = make_crew(modern=True)
    member = CrewMember(crew.bootstrap, crew.group_id, modern=True)
    crew.members.append(member)
    await member.start(pattern=f"{crew.topic[:-1]}.")
    await crew.until_settled()
    assert {tp.topic for tp in member.held} == {crew.topic}
    # The member resolves the name from the id; the topic is requested only once assigned.
    await until(lambda: crew.topic in member.cluster.metadata.topics, lambda: crew.members)


async def test_classic_and_consumer_protocol_members_in_one_group(make_crew: CrewFactory) -> None:
    """A group is upgraded while it runs, and downgraded."""
    crew = make_crew(new_assignor=CooperativeStickyAssignor)
    old = [await crew.add() for _ in range(2)]
    await crew.until_settled()
    new = [await crew.add(modern=True)]
    await crew.until_settled()
    await old[0].stop()
    new.append(await crew.add(modern=True))
    await crew.until_settled()
    await old[1].stop()
    await crew.until_settled()
    back = await crew.add()
    for member in new:
        await member.stop()
    await crew.until_settled()
    assert len(back.held) == PARTITIONS
