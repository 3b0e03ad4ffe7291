"""The topics that members see: a temporary error in the metadata is no change."""

from uuid import UUID

from aiokafka_lite.cluster.metadata import Metadata, Node, Partition, Topic
from aiokafka_lite.errors import (
    LeaderNotAvailableError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.group.membership import TopicLayout
from aiokafka_lite.group.topic_layouts import GONE_AFTER, Layouts

A, B = UUID(int=1), UUID(int=2)


def topic(count: int, topic_id: UUID | None = A, **fields: object) -> Topic:
    partitions = {n: Partition(n, 0, replicas=(n % 3, (n + 1) % 3)) for n in range(count)}
    return Topic("t", topic_id, partitions=partitions, **fields)  # type: ignore[arg-type]


def metadata(told: Topic | None, racks: dict[int, str | None] | None = None) -> Metadata:
    brokers = {n: Node(n, "h", 1, rack) for n, rack in (racks or {0: None}).items()}
    return Metadata(topics={} if told is None else {"t": told}, brokers=brokers)


def test_topics_that_exist() -> None:
    layouts = Layouts()
    assert layouts.of({"t", "u"}, metadata(topic(2)), 0.0) == {"t": TopicLayout(2, (), A)}
    assert layouts.of(set(), metadata(topic(2)), 0.0) == {}


def test_a_missing_topic_keeps_its_layout_for_a_while() -> None:
    gone = topic(2, error=UnknownTopicOrPartitionError)
    for missing in (None, gone, Topic("t", A), topic(0, error=TopicAuthorizationFailedError)):
        layouts = Layouts()
        assert layouts.of({"t"}, metadata(missing), 0.0) == {}
        known = layouts.of({"t"}, metadata(topic(2)), 1.0)
        assert layouts.of({"t"}, metadata(missing), 2.0) == known
        assert layouts.of({"t"}, metadata(missing), 2.0 + GONE_AFTER - 0.1) == known
        assert layouts.of({"t"}, metadata(missing), 2.0 + GONE_AFTER) == {}
        assert layouts.of({"t"}, metadata(missing), 3.0 + GONE_AFTER) == {}
        assert layouts.of({"t"}, metadata(topic(2)), 4.0 + GONE_AFTER) == known


def test_a_topic_that_reappears_restarts_the_grace_period() -> None:
    layouts = Layouts()
    known = layouts.of({"t"}, metadata(topic(2)), 0.0)
    layouts.of({"t"}, metadata(None), 1.0)
    layouts.of({"t"}, metadata(topic(2)), 5.0)
    assert layouts.of({"t"}, metadata(None), 1.0 + GONE_AFTER) == known


def test_a_topic_without_a_leader_for_now_is_there() -> None:
    layouts = Layouts()
    known = layouts.of({"t"}, metadata(topic(2)), 0.0)
    for now in (1.0, 100.0, 200.0):
        told = topic(2, error=LeaderNotAvailableError)
        assert layouts.of({"t"}, metadata(told), now) == known


def test_a_topic_never_shrinks() -> None:
    layouts = Layouts()
    layouts.of({"t"}, metadata(topic(4)), 0.0)
    assert layouts.of({"t"}, metadata(topic(2)), 1.0)["t"].partitions == 4
    assert layouts.of({"t"}, metadata(topic(6)), 2.0)["t"].partitions == 6


def test_a_recreated_topic_may_have_fewer_partitions() -> None:
    layouts = Layouts()
    layouts.of({"t"}, metadata(topic(4)), 0.0)
    assert layouts.of({"t"}, metadata(topic(2, B)), 1.0)["t"] == TopicLayout(2, (), B)


def test_fewer_partitions_are_accepted_from_brokers_without_topic_ids() -> None:
    layouts = Layouts()
    layouts.of({"t"}, metadata(topic(4, None)), 0.0)
    assert layouts.of({"t"}, metadata(topic(2, None)), 1.0)["t"].partitions == 2


def test_racks_are_those_of_the_replicas_and_outlast_a_broker() -> None:
    layouts = Layouts()
    first = layouts.of({"t"}, metadata(topic(2), {0: "a", 1: "b", 2: "c"}), 0.0)
    assert first["t"].racks == (frozenset("ab"), frozenset("bc"))
    # One is down, and for one a coordinator lookup returned only the address.
    assert layouts.of({"t"}, metadata(topic(2), {0: "a", 1: None}), 1.0) == first
    moved = layouts.of({"t"}, metadata(topic(2), {0: "a", 1: "z", 2: "c"}), 2.0)
    assert moved["t"].racks == (frozenset("az"), frozenset("zc"))


def test_without_racks_there_are_none() -> None:
    assert Layouts().of({"t"}, metadata(topic(2), {0: None, 1: ""}), 0.0)["t"].racks == ()
