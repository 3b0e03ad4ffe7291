"""Which broker coordinates which key: by Java's hash, and sticky while the broker is up."""

import pytest

from aiokafka_lite.errors import GroupCoordinatorNotAvailableError, NotCoordinatorForGroupError
from aiokafka_lite.testing.coordinator_table import Coordinators, CoordinatorType, slot_of
from aiokafka_lite.testing.node import Node

GROUP = CoordinatorType.GROUP


def nodes(count: int = 3) -> dict[int, Node]:
    made = {node_id: Node(node_id, "127.0.0.1", None) for node_id in range(count)}
    for node in made.values():
        node.alive = True
    return made


def test_slots_are_those_of_javas_hash() -> None:
    # "polygenelubricants".hashCode() is Integer.MIN_VALUE, of which Kafka takes 0;
    # "hello".hashCode() is 99162322; "\N{GRINNING FACE}" is two UTF-16 units: 1772899.
    assert slot_of("polygenelubricants") == 0
    assert slot_of("hello") == 99162322 % 50
    assert slot_of("\N{GRINNING FACE}") == 1772899 % 50
    assert slot_of("") == 0


def test_a_key_stays_until_its_broker_dies_and_does_not_come_back() -> None:
    brokers = nodes()
    coordinators = Coordinators(brokers)
    told: list[None] = []
    coordinators.watchers.add(lambda: told.append(None))
    first = coordinators.node_of(GROUP, "workers").node_id
    brokers[first].alive = False
    coordinators.on_node_down()
    second = coordinators.node_of(GROUP, "workers").node_id
    assert second != first
    brokers[first].alive = True
    assert coordinators.node_of(GROUP, "workers").node_id == second
    coordinators.check(second, GROUP, "workers")
    with pytest.raises(NotCoordinatorForGroupError):
        coordinators.check(first, GROUP, "workers")
    coordinators.move(GROUP, "workers", first)
    assert coordinators.node_of(GROUP, "workers").node_id == first
    assert len(told) == 2


def test_no_broker_remains() -> None:
    brokers = nodes(2)
    coordinators = Coordinators(brokers)
    with pytest.raises(ValueError, match="broker 7"):
        coordinators.move(GROUP, "workers", 7)
    for node in brokers.values():
        node.alive = False
    with pytest.raises(GroupCoordinatorNotAvailableError):
        coordinators.node_of(GROUP, "workers")
