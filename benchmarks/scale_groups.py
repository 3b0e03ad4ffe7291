"""Measures the assignors with 1,000 members and 10,000 partitions: CPU time and quality.

    python -m benchmarks.scale_groups                       compared with Java's assignors
    python -m benchmarks.scale_groups --members 100 --partitions 1000

The steps for each assignor are the first assignment, one member leaves, and one member joins. Each
input is passed repeatedly to this package's assignor and to Java's (tools/kafka/java/Assign.java).
The result is the minimum CPU time of the thread. The time of the first call is also printed,
because a group leader assigns rarely. In Java, members claim the partitions that this package's
assignor assigned before, so that both assignors get the same input.

- spread: the difference between the largest and the smallest number of partitions of a member;
- moved: partitions that a member lost although it is still in the group. Partitions that a
  cooperative assignment withholds until their owner has revoked them count as moved.

The last lines show the client side of KIP-848: the CPU time of one heartbeat whose response assigns
all partitions to one member, from decoding the response to encoding the acknowledgement.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar
from uuid import UUID

from aiokafka_lite.group.assignment_data import Subscription, read_assignment, write_subscription
from aiokafka_lite.group.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor
from aiokafka_lite.group.assignors.interface import NativeAssignor
from aiokafka_lite.group.assignors.range_assignor import RangeAssignor
from aiokafka_lite.group.assignors.roundrobin_assignor import RoundRobinAssignor
from aiokafka_lite.group.assignors.sticky_assignment import StickyAssignor, write_user_data
from aiokafka_lite.group.assignors.sticky_claims import Claim
from aiokafka_lite.group.membership import TopicLayout
from aiokafka_lite.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from aiokafka_lite.protocol.primitives import Reader
from aiokafka_lite.structs import TopicPartition
from tools.kafka import java

OF_A_TOPIC = 1_000
REPEATS = 7
ASSIGNORS: tuple[type[NativeAssignor], ...] = (
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    CooperativeStickyAssignor,
)

Assigned = Mapping[str, list[TopicPartition]]
Members = dict[str, Subscription]
Topics = dict[str, TopicLayout]
T = TypeVar("T")


class Timed(NamedTuple):
    """An assignment, and the CPU milliseconds of the first and of the fastest call."""

    assigned: Assigned
    first: float
    least: float


def claiming(assignor: type[NativeAssignor], members: Members, held: Assigned) -> Members:
    """Return the members as they join after an assignment; new members claim nothing."""
    claims = {name: Claim(tuple(held.get(name, ())), 1 if name in held else -1) for name in members}
    if assignor is StickyAssignor:
        return {
            name: replace(
                member,
                generation=claims[name].generation,
                user_data=write_user_data(claims[name]) if name in held else None,
            )
            for name, member in members.items()
        }
    if assignor is CooperativeStickyAssignor:
        return {
            name: replace(
                member,
                owned=claims[name].partitions,
                generation=claims[name].generation,
                user_data=claims[name].generation.to_bytes(4, "big", signed=True),
            )
            for name, member in members.items()
        }
    return members


def clocked(work: Callable[[], T]) -> tuple[T, float, float]:
    """Return the result, and the CPU milliseconds of the first and of the fastest call."""
    spent = []
    for _ in range(REPEATS):
        begin = time.thread_time()
        result = work()
        spent.append((time.thread_time() - begin) * 1e3)
    return result, spent[0], min(spent)


def ours(assignor: type[NativeAssignor], members: Members, topics: Topics) -> Timed:
    return Timed(*clocked(lambda: assignor.divide(members, topics)))


def theirs(assignor: type[NativeAssignor], members: Members, topics: Topics) -> Timed:
    question = {
        "assignor": assignor.name,
        "topics": {name: [[]] * layout.partitions for name, layout in topics.items()},
        "members": {
            name: {"subscription": write_subscription(member).hex(), "instance": None}
            for name, member in members.items()
        },
    }
    lines = java.run("Assign", [], given=(json.dumps(question) + "\n") * REPEATS, timeout=600)
    answers = [json.loads(line) for line in lines]
    spent = [answer["cpuNanos"] / 1e6 for answer in answers]
    assigned = {
        name: list(read_assignment(bytes.fromhex(data)).partitions)
        for name, data in answers[-1]["assigned"].items()
    }
    return Timed(assigned, spent[0], min(spent))


def quality(assigned: Assigned, held: Assigned) -> str:
    sizes = [len(mine) for mine in assigned.values()]
    stayed = sum(len(set(held[name]) & set(assigned[name])) for name in held if name in assigned)
    could = sum(len(held[name]) for name in held if name in assigned)
    return f"spread {max(sizes) - min(sizes)}, moved {could - stayed}"


def compare(assignor: type[NativeAssignor], members: Members, topics: Topics) -> None:
    names = sorted(members)
    held: Assigned = {}
    for step, present in (
        ("first assignment", names[:-1]),
        ("one member leaves", names[1:-1]),
        ("one member joins", names[1:]),
    ):
        joining = claiming(assignor, {name: members[name] for name in present}, held)
        mine, java = ours(assignor, joining, topics), theirs(assignor, joining, topics)
        same = "the same" if _sorted(mine.assigned) == _sorted(java.assigned) else "a different"
        print(
            f"{assignor.name:19}{step:19}{mine.least:8.1f} ms ({mine.first:.0f} first)"
            f"{java.least:8.1f} ms ({java.first:.0f} first)   {quality(mine.assigned, held)}"
            f" | {quality(java.assigned, held)}   {same} assignment",
            flush=True,
        )
        if assignor is CooperativeStickyAssignor and held:
            # The second round assigns the moving partitions, which their owners have revoked.
            second = claiming(assignor, joining, mine.assigned)
            held = assignor.divide(second, topics)
        else:
            held = mine.assigned


def _sorted(assigned: Assigned) -> dict[str, list[TopicPartition]]:
    return {name: sorted(mine) for name, mine in assigned.items()}


def heartbeats(partitions: int) -> None:
    """Measure decoding and encoding of a KIP-848 heartbeat with all partitions."""
    version = ConsumerGroupHeartbeatRequest.max_version
    numbers = list(range(OF_A_TOPIC))
    ids = [UUID(int=number + 1) for number in range(partitions // OF_A_TOPIC)]
    response = ConsumerGroupHeartbeatResponse(
        member_id="m",
        member_epoch=1,
        heartbeat_interval_ms=5000,
        assignment=Assignment(
            topic_partitions=[TopicPartitions(topic_id=id_, partitions=numbers) for id_ in ids]
        ),
    )
    out = bytearray()
    response.encode(out, version)
    data = bytes(out)
    _, first, least = clocked(lambda: ConsumerGroupHeartbeatResponse.decode(Reader(data), version))
    print(f"heartbeat response of {len(data)} bytes: decoded in {least:.2f} ms ({first:.2f} first)")
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=1,
        topic_partitions=[TopicPartitions(topic_id=id_, partitions=numbers) for id_ in ids],
    )
    _, first, least = clocked(lambda: request.encode(bytearray(), version))
    print(f"its acknowledgement: encoded in {least:.2f} ms ({first:.2f} first)")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    arguments.add_argument("--members", type=int, default=1_000)
    arguments.add_argument("--partitions", type=int, default=10_000)
    given = arguments.parse_args()
    topics = {
        f"topic-{number}": TopicLayout(OF_A_TOPIC)
        for number in range(given.partitions // OF_A_TOPIC)
    }
    subscription = Subscription(topics=tuple(topics))
    members = {f"member-{number:05}": subscription for number in range(given.members + 1)}
    for assignor in ASSIGNORS:
        compare(assignor, members, topics)
    heartbeats(given.partitions)


if __name__ == "__main__":
    main()
