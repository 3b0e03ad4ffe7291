"""The tracked topics: the first response sets the expiry, and use renews it."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from aiokafka_lite.cluster.refresh.tracked_topics import TOPIC_EXPIRY, TrackedTopics


def test_default_expiry_is_five_minutes():
    assert TOPIC_EXPIRY == 300.0


def test_expiry_counts_from_the_first_response():
    topics = TrackedTopics(300.0)
    assert topics.add("t")
    topics.on_answer(1000.0)
    topics.on_answer(1299.0)
    assert topics.names == {"t"}
    topics.on_answer(1300.0)
    assert topics.names == set()


def test_use_renews_the_expiry():
    topics = TrackedTopics(300.0)
    topics.add("t")
    topics.on_answer(1000.0)
    assert not topics.add("t")
    topics.on_answer(1301.0)
    topics.on_answer(1600.0)
    assert "t" in topics
    topics.on_answer(1601.0)
    assert "t" not in topics


def test_pinned_topics_never_expire_and_are_replaced_as_a_whole():
    topics = TrackedTopics(300.0)
    topics.add("used")
    assert topics.pin(["a", "used"]) == {"a"}
    topics.on_answer(0.0)
    topics.on_answer(1000.0)
    assert topics.names == {"a", "used"}
    assert topics.pin(["b"]) == {"b"}
    assert topics.names == {"b"}


def test_pinning_none_tracks_all_topics():
    topics = TrackedTopics()
    assert not topics.all
    topics.pin(None)
    assert topics.all
    topics.pin([])
    assert not topics.all


NAMES = ("a", "b", "c")


class TopicsModel(RuleBasedStateMachine):
    """Compares with a log of uses and responses, replayed for each query."""

    def __init__(self):
        super().__init__()
        self.topics = TrackedTopics(10.0)
        self.now = 0.0
        self.pinned = set()
        self.log: dict[str, list[tuple[str, float]]] = {}

    @rule(name=st.sampled_from(NAMES))
    def used(self, name):
        assert self.topics.add(name) == (name not in self.tracked())
        self.log.setdefault(name, []).append(("use", self.now))

    @rule(names=st.sets(st.sampled_from(NAMES)))
    def pinned_anew(self, names):
        before = self.tracked()
        assert self.topics.pin(names) == names - before
        self.pinned = set(names)

    @rule(later=st.integers(0, 12))
    def answered(self, later):
        self.now += later
        self.topics.on_answer(self.now)
        for events in self.log.values():
            events.append(("answer", self.now))

    def tracked(self):
        return self.pinned | {name for name, events in self.log.items() if self._alive(events)}

    @staticmethod
    def _alive(events):
        alive, expires = False, None
        for kind, at in events:
            if kind == "use":
                alive, expires = True, None
            elif alive and expires is None:
                expires = at + 10.0
            elif alive and expires <= at:
                alive = False
        return alive

    @invariant()
    def agrees(self):
        assert self.topics.names == self.tracked()
        assert {name for name in NAMES if name in self.topics} == self.tracked()


TopicsModel.TestCase.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
TestTopicsModel = TopicsModel.TestCase
