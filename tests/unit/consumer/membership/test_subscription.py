"""The application's subscription, and its meaning for given metadata."""

from typing import Any

import pytest

from aiokafka_lite._arguments import as_partition
from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.cluster.metadata import Metadata, Partition, Topic
from aiokafka_lite.consumer.membership.subscription import Subscription
from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.structs import TopicPartition


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None: ...
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None: ...


def metadata(**topics: int) -> Metadata:
    return Metadata(
        topics={
            name: Topic(
                name,
                is_internal=name.startswith("__"),
                partitions={i: Partition(i, leader=0) for i in range(count)},
            )
            for name, count in topics.items()
        }
    )


def subscription() -> Subscription:
    return Subscription(exclude_internal=True)


def test_topics_mean_all_their_partitions() -> None:
    it = subscription()
    assert it.on_metadata(metadata(a=2)) is None
    it.subscribe(["b", "a"], None, None)
    assert it.automatic
    assert it.on_metadata(metadata(a=2, c=1)) == [("a", 0), ("a", 1)]
    assert it.on_metadata(metadata(a=3, b=1)) == [("a", 0), ("a", 1), ("a", 2), ("b", 0)]
    assert it.topics == {"a", "b"}


def test_a_pattern_matches_from_the_beginning() -> None:
    it = subscription()
    it.subscribe((), "ab?", Listener())
    assert it.on_metadata(metadata(abc=1, a=1, xa=1, __a=1)) == [("a", 0), ("abc", 0)]
    assert it.topics == {"a", "abc"}


@pytest.mark.parametrize("exclude", [True, False])
def test_internal_topics(exclude: bool) -> None:
    it = Subscription(exclude_internal=exclude)
    it.subscribe((), ".*", None)
    it.on_metadata(metadata(a=1, __internal=1))
    assert it.topics == ({"a"} if exclude else {"a", "__internal"})


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (((), None, None), TypeError, "You should provide either"),
        ((["a"], "a", None), TypeError, "You can't provide both"),
        (("orders", None, None), TypeError, "Topics should be list of strings"),
        (([1], None, None), TypeError, "Topics should be list of strings"),
        ((["a"], None, object()), TypeError, "instance of ConsumerRebalanceListener"),
        (((), "(", None), ValueError, "is not a valid pattern"),
    ],
)
def test_refused(arguments: Any, kind: type[Exception], words: str) -> None:
    it = subscription()
    with pytest.raises(kind) as caught:
        it.subscribe(*arguments)
    assert words in str(caught.value)
    assert not it.automatic


def test_the_three_kinds_exclude_one_another() -> None:
    it = subscription()
    it.subscribe(["a"], None, None)
    it.subscribe(["b"], None, None)
    with pytest.raises(IllegalStateError, match="mutually exclusive"):
        it.assign([TopicPartition("a", 0)])
    with pytest.raises(IllegalStateError):
        it.subscribe((), "a", None)
    it.unsubscribe()
    it.subscribe((), "a", None)
    with pytest.raises(IllegalStateError):
        it.subscribe(["a"], None, None)
    it.unsubscribe()
    assert it.assign([TopicPartition("a", 0)]) == [("a", 0)]
    with pytest.raises(IllegalStateError):
        it.subscribe(["a"], None, None)
    assert it.on_metadata(metadata(a=1)) is None
    it.unsubscribe()
    it.subscribe(["a"], None, None)


@pytest.mark.parametrize("value", ["orders", ("orders", "0"), ("a", 0, 1), None, (1, 0)])
def test_no_partition(value: object) -> None:
    with pytest.raises(TypeError, match="TopicPartition"):
        as_partition(value)
