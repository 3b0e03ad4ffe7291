"""The merge of metadata: tables of single responses, and a model for random ones."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from aiokafka_lite.cluster.metadata import (
    EMPTY,
    LeaderHint,
    Metadata,
    Node,
    Partition,
    metadata_request,
)
from aiokafka_lite.cluster.metadata_merge import merge
from aiokafka_lite.errors import (
    InvalidTopicError,
    LeaderNotAvailableError,
    MetadataEmptyBrokerList,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka_lite.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID, Reader

ID_1, ID_2 = UUID(int=1), UUID(int=2)


def partition_response(partition: int, leader: int, epoch: int, error: int = 0):
    return MetadataResponsePartition(
        error_code=error,
        partition_index=partition,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[leader],
        offline_replicas=[],
    )


def topic_response(name: str, *partitions, topic_id: UUID = ID_1, error: int = 0):
    return MetadataResponseTopic(
        error_code=error, name=name, topic_id=topic_id, partitions=list(partitions)
    )


def answer(*topics, brokers=(1, 2), cluster_id="c", controller_id=1):
    return MetadataResponse(
        brokers=[MetadataResponseBroker(n, f"host{n}", 9090 + n, f"rack{n}") for n in brokers],
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=list(topics),
    )


def merged(
    old: Metadata,
    *topics,
    asked=("t",),
    version=None,
    api_version=13,
    keep=lambda name: True,
    **of_answer,
):
    return merge(
        old,
        answer(*topics, **of_answer),
        version=old.version + 1 if version is None else version,
        api_version=api_version,
        asked=asked,
        keep=keep,
    )


def test_response_becomes_a_snapshot():
    reported = merged(
        EMPTY,
        MetadataResponseTopic(
            name="t",
            topic_id=ID_1,
            is_internal=True,
            partitions=[MetadataResponsePartition(0, 0, 2, 7, [1, 2], [2], [1])],
        ),
        version=4,
    )
    assert reported.version == 4
    assert reported.brokers == {
        1: Node(1, "host1", 9091, "rack1"),
        2: Node(2, "host2", 9092, "rack2"),
    }
    assert (reported.controller_id, reported.cluster_id) == (1, "c")
    topic = reported.topics["t"]
    assert (topic.topic_id, topic.is_internal, topic.error) == (ID_1, True, None)
    assert topic.partitions == {0: Partition(0, 2, 7, (1, 2), (2,), (1,), None)}
    assert reported.topic_names == {ID_1: "t"}
    assert reported.leader("t", 0) == Node(2, "host2", 9092, "rack2")
    assert reported.leader("t", 1) is None
    assert reported.leader("other", 0) is None


def test_snapshot_is_immutable():
    with pytest.raises(AttributeError):
        EMPTY.version = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("before", "now", "topic_id", "leader"),
    [
        pytest.param(5, 6, ID_1, 2, id="newer epoch wins"),
        pytest.param(5, 5, ID_1, 2, id="equal epoch is taken: replicas may have changed"),
        pytest.param(5, 4, ID_1, 1, id="older epoch never wins"),
        pytest.param(5, 0, ID_2, 2, id="made again: another topic id begins anew"),
        pytest.param(5, -1, ID_1, 2, id="an unknown epoch is compared with nothing"),
        pytest.param(-1, 0, ID_1, 2, id="nor is one compared with an unknown"),
        pytest.param(5, 4, ZERO_UUID, 1, id="older, from a broker without topic ids"),
    ],
)
def test_older_leader_epoch_is_ignored(before, now, topic_id, leader):
    old = merged(EMPTY, topic_response("t", partition_response(0, 1, before)))
    new = merged(old, topic_response("t", partition_response(0, 2, now), topic_id=topic_id))
    assert new.partition("t", 0).leader == leader
    assert new.topics["t"].topic_id == (None if topic_id == ZERO_UUID else topic_id)


@pytest.mark.parametrize(("api_version", "leader", "epoch"), [(7, 2, -1), (8, 2, -1), (9, 1, 5)])
def test_epochs_before_metadata_v9_are_ignored(api_version, leader, epoch):
    old = merged(EMPTY, topic_response("t", partition_response(0, 1, 5)))
    new = merged(old, topic_response("t", partition_response(0, 2, 3)), api_version=api_version)
    assert new.partition("t", 0).leader == leader
    assert new.partition("t", 0).leader_epoch == epoch


def test_node_from_a_coordinator_lookup_is_added():
    known = merged(EMPTY)
    assert known.with_node(Node(1, "host1", 9091)) is known, "it is not new"
    assert known.with_node(Node(1, "moved", 9091)).brokers[1] == Node(1, "moved", 9091)
    third = Node(3, "host3", 9093)
    assert known.with_node(third).brokers == {**known.brokers, 3: third}


@pytest.mark.parametrize("code", [3, 5, 7, 56, -1])
def test_retriable_error_is_kept_with_the_partitions(code):
    old = merged(EMPTY, topic_response("t", partition_response(0, 1, 5)))
    new = merged(old, topic_response("t", error=code))
    assert new.topics["t"].error is for_code(code)
    assert new.topics["t"].partitions == old.topics["t"].partitions
    assert not new.topics["t"].settled
    # ... and the epochs are kept
    later = merged(new, topic_response("t", partition_response(0, 2, 4)))
    assert later.partition("t", 0).leader == 1


def test_without_topic_ids_an_unknown_topic_forgets_its_epochs():
    old = merged(EMPTY, topic_response("t", partition_response(0, 1, 5), topic_id=ZERO_UUID))
    gone = merged(old, topic_response("t", error=3, topic_id=ZERO_UUID))
    assert gone.partition("t", 0).leader == 1
    again = merged(gone, topic_response("t", partition_response(0, 2, 0), topic_id=ZERO_UUID))
    assert again.partition("t", 0).leader == 2


@pytest.mark.parametrize(
    ("code", "error"), [(29, TopicAuthorizationFailedError), (17, InvalidTopicError)]
)
def test_lasting_error_removes_the_partitions(code, error):
    old = merged(EMPTY, topic_response("t", partition_response(0, 1, 5)))
    new = merged(old, topic_response("t", error=code))
    assert new.topics["t"].error is error
    assert new.topics["t"].partitions == {}
    assert new.topics["t"].settled


def test_requested_topic_missing_from_the_response_is_unknown():
    new = merged(EMPTY, asked=("t", "u"))
    assert new.topics["t"].error is new.topics["u"].error is UnknownTopicOrPartitionError


def test_partition_without_leader():
    new = merged(EMPTY, topic_response("t", partition_response(0, -1, 5, error=5)))
    assert new.partition("t", 0).error is LeaderNotAvailableError
    assert new.leader("t", 0) is None
    assert not new.topics["t"].settled


def test_partition_missing_from_a_response_is_removed():
    old = merged(
        EMPTY, topic_response("t", partition_response(0, 1, 5), partition_response(1, 1, 5))
    )
    new = merged(old, topic_response("t", partition_response(0, 1, 0), topic_id=ID_2))
    assert set(new.topics["t"].partitions) == {0}


def test_unchanged_topics_and_partitions_keep_their_objects():
    def answered(*leaders):
        return topic_response("t", *(partition_response(p, n, 5) for p, n in enumerate(leaders)))

    first = merged(EMPTY, answered(1, 2))
    second = merged(first, answered(1, 2))
    assert second.topics["t"] is first.topics["t"]
    third = merged(second, answered(1, 1))
    assert third.topics["t"] is not first.topics["t"]
    assert third.partition("t", 0) is first.partition("t", 0)
    assert third.partition("t", 1).leader == 1
    more = merged(third, answered(1, 1, 1))
    assert list(more.topics["t"].partitions) == [0, 1, 2]


def test_partial_response_keeps_other_tracked_topics():
    old = merged(
        EMPTY,
        topic_response("kept", partition_response(0, 1, 1)),
        topic_response("forgotten", partition_response(0, 1, 1), topic_id=ID_2),
        asked=("kept", "forgotten"),
    )
    new = merged(
        old,
        topic_response("t", partition_response(0, 1, 1), topic_id=UUID(int=3)),
        keep=lambda name: name == "kept",
    )
    assert set(new.topics) == {"t", "kept"}
    assert set(new.topic_names) == {ID_1, UUID(int=3)}


def test_response_with_all_topics_drops_missing_ones():
    old = merged(EMPTY, topic_response("t", partition_response(0, 1, 1)))
    assert merged(old, asked=None).topics == {}


def test_v0_response_has_all_topics_but_no_cluster_data():
    row = MetadataResponsePartition(0, 0, 1, replica_nodes=[1], isr_nodes=[1])
    sent = MetadataResponse(
        brokers=[MetadataResponseBroker(1, "host1", 9091)],
        topics=[MetadataResponseTopic(name="t", partitions=[row])],
    )
    wire = bytearray()
    sent.encode(wire, 0)
    received = MetadataResponse.decode(Reader(bytes(wire)), 0)

    def after(asked):
        return merge(EMPTY, received, version=1, api_version=0, asked=asked, keep=lambda name: True)

    assert after(asked=()).topics == {}
    reported = after(asked=None)
    assert (reported.controller_id, reported.cluster_id) == (-1, None)
    assert reported.brokers == {1: Node(1, "host1", 9091, None)}
    assert reported.topics["t"].partitions == {0: Partition(0, 1, -1, (1,), (1,), (), None)}


def test_response_of_another_cluster_replaces_everything():
    old = merged(
        EMPTY, topic_response("t", partition_response(0, 1, 5)), topic_response("u"), asked="tu"
    )
    new = merged(old, topic_response("t", partition_response(0, 2, 1)), cluster_id="d")
    assert new.partition("t", 0).leader == 2
    assert "u" not in new.topics


def test_response_without_cluster_id_keeps_the_known_one():
    old = merged(EMPTY, topic_response("t", partition_response(0, 1, 5)))
    new = merged(old, topic_response("t", partition_response(0, 2, 4)), cluster_id=None)
    assert new.cluster_id == "c"
    assert new.partition("t", 0).leader == 1


@pytest.mark.parametrize("api_version", [0, 1, 13])
def test_response_without_brokers_is_rejected(api_version):
    with pytest.raises(MetadataEmptyBrokerList):
        merged(merged(EMPTY), brokers=(), api_version=api_version)


def test_v0_response_without_brokers_is_accepted_at_first():
    """0.8.2 lists none before its first topic; any other broker that lists none is starting."""
    assert merged(EMPTY, brokers=(), api_version=0, version=1).version == 1
    with pytest.raises(MetadataEmptyBrokerList):
        merged(EMPTY, brokers=(), api_version=1)


class TestLeaderHints:
    known = merged(EMPTY, topic_response("t", partition_response(0, 1, 5)))

    def test_newer_hint_is_adopted(self):
        new = self.known.with_leaders([LeaderHint("t", 0, 2, 6)])
        assert new.partition("t", 0)[:3] == (0, 2, 6)
        assert new.version == self.known.version
        assert self.known.partition("t", 0).leader == 1

    def test_hint_with_an_unknown_node(self):
        node = Node(3, "host3", 9093, None)
        assert self.known.with_leaders([LeaderHint("t", 0, 3, 6, node)]).leader("t", 0) == node

    @pytest.mark.parametrize(
        ("topic", "partition", "leader", "epoch"),
        [
            pytest.param("t", 0, 2, 5, id="same epoch"),
            pytest.param("t", 0, 2, 4, id="older"),
            pytest.param("t", 1, 2, 6, id="unknown partition"),
            pytest.param("u", 0, 2, 6, id="unknown topic"),
            pytest.param("t", 0, 3, 6, id="address not known"),
        ],
    )
    def test_useless_hints_return_the_same_snapshot(self, topic, partition, leader, epoch):
        assert self.known.with_leaders([LeaderHint(topic, partition, leader, epoch)]) is self.known

    def test_older_response_does_not_undo_a_hint(self):
        new = merged(
            self.known.with_leaders([LeaderHint("t", 0, 2, 6)]),
            topic_response("t", partition_response(0, 1, 5)),
        )
        assert new.partition("t", 0).leader == 2


@pytest.mark.parametrize(
    ("asked", "api_version", "topics"),
    [
        pytest.param(None, 0, [], id="v0 all: the empty list"),
        pytest.param(None, 1, None, id="v1 all: null"),
        pytest.param(frozenset(), 1, [], id="v1 none: the empty list"),
        pytest.param({"b", "a"}, 0, ["a", "b"], id="v0 some"),
        pytest.param({"b", "a"}, 13, ["a", "b"], id="v13 some"),
    ],
)
@pytest.mark.parametrize("auto_create", [True, False])
def test_metadata_requests(asked, api_version, topics, auto_create):
    request = metadata_request(asked, api_version, auto_create)
    request.encode(bytearray(), api_version)  # no field is set that the version lacks
    assert (request.topics and [t.name for t in request.topics]) == topics
    assert request.allow_auto_topic_creation is (auto_create or api_version < 4)


class MergeModel(RuleBasedStateMachine):
    """Compares random responses with a model that keeps the expected state of each partition.

    The model: (topic id, leader, epoch) per partition, in one flat dictionary. A reported partition
    replaces an entry unless it has the same topic, both epochs are known, and it is older.
    """

    names = ("a", "b", "c")

    def __init__(self):
        super().__init__()
        self.metadata = EMPTY
        self.kept = set(self.names)
        self.partitions: dict[tuple[str, int], tuple[int, int]] = {}
        self.ids: dict[str, UUID | None] = {}
        self.errors: dict[str, int] = {}

    @rule(
        asked=st.none() | st.frozensets(st.sampled_from(names)),
        reported=st.dictionaries(
            st.sampled_from(names),
            st.tuples(
                st.sampled_from([0, 0, 0, 3, 5, 29]),
                st.sampled_from([ZERO_UUID, ID_1, ID_2]),
                st.dictionaries(
                    st.integers(0, 2), st.tuples(st.integers(-1, 2), st.integers(-1, 4))
                ),
            ),
        ),
        kept=st.sets(st.sampled_from(names)),
    )
    def answered(self, asked, reported, kept):
        topics = []
        for name, (error, topic_id, partitions) in reported.items():
            if error:
                topics.append(topic_response(name, error=error, topic_id=ZERO_UUID))
            else:
                rows = [partition_response(p, leader, e) for p, (leader, e) in partitions.items()]
                topics.append(topic_response(name, *rows, topic_id=topic_id))
        self.metadata = merged(self.metadata, *topics, asked=asked, keep=kept.__contains__)
        self._believe(asked, reported, kept)

    def _believe(self, asked, reported, kept):
        for name in self.names:
            known = {p: v for (n, p), v in self.partitions.items() if n == name}
            concerned = asked is None or name in asked
            if not concerned:
                if name not in kept:
                    self._forget(name)
                continue
            if name not in reported and asked is None:
                self._forget(name)
                continue
            error, topic_id, partitions = reported.get(name, (3, ZERO_UUID, {}))
            self._forget_partitions(name)
            self.errors[name] = error
            self.ids.setdefault(name, None)
            if error == 29:
                continue
            if error:
                if error == 3 and self.ids[name] is None:
                    known = {p: (leader, -1) for p, (leader, _) in known.items()}
                self.partitions.update({(name, p): v for p, v in known.items()})
                continue
            new_id = None if topic_id == ZERO_UUID else topic_id
            same = None in (new_id, self.ids[name]) or new_id == self.ids[name]
            self.ids[name] = new_id
            for p, (leader, epoch) in partitions.items():
                before = known.get(p)
                older = before is not None and same and epoch != -1 and epoch < before[1]
                self.partitions[name, p] = before if older else (leader, epoch)

    def _forget_partitions(self, name):
        self.partitions = {k: v for k, v in self.partitions.items() if k[0] != name}

    def _forget(self, name):
        self._forget_partitions(name)
        self.ids.pop(name, None)
        self.errors.pop(name, None)

    @rule(
        name=st.sampled_from(names),
        partition=st.integers(0, 2),
        leader=st.integers(1, 2),
        epoch=st.integers(0, 6),
    )
    def hinted(self, name, partition, leader, epoch):
        if not self.metadata.brokers:
            return
        before = self.partitions.get((name, partition))
        self.metadata = self.metadata.with_leaders([LeaderHint(name, partition, leader, epoch)])
        if before is not None and epoch > before[1]:
            self.partitions[name, partition] = (leader, epoch)

    @invariant()
    def agrees(self):
        assert {
            (topic.name, p): (known.leader, known.leader_epoch)
            for topic in self.metadata.topics.values()
            for p, known in topic.partitions.items()
        } == self.partitions
        assert {t.name: t.topic_id for t in self.metadata.topics.values()} == self.ids
        assert {
            t.name: t.error.errno if t.error else 0 for t in self.metadata.topics.values()
        } == self.errors


MergeModel.TestCase.settings = settings(max_examples=150, stateful_step_count=12, deadline=None)
TestMergeModel = MergeModel.TestCase
