"""Quotas: which entry applies to a client, and how long it is throttled by Kafka's arithmetic."""

import pytest

from aiokafka_lite.errors import InvalidRequestError, UnsupportedVersionError
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing.clock import VirtualClock
from aiokafka_lite.testing.quotas import (
    CONSUMER_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    Limit,
    QuotaFilter,
    QuotaTable,
    entity_of,
)
from aiokafka_lite.testing.throttles import Throttle, Throttles
from tests.unit.testing.security.test_users import Remembering

USER, CLIENT = "user", "client-id"
ALICE = "User:alice"


def test_the_most_specific_quota_applies() -> None:
    table = QuotaTable()
    lines: list[tuple[list[tuple[str, str | None]], Limit]] = [
        ([(CLIENT, None)], Limit(8, "", "app")),
        ([(CLIENT, "app")], Limit(7, "", "app")),
        ([(USER, None)], Limit(6, "alice", "")),
        ([(USER, None), (CLIENT, None)], Limit(5, "alice", "app")),
        ([(USER, None), (CLIENT, "app")], Limit(4, "alice", "app")),
        ([(USER, "alice")], Limit(3, "alice", "")),
        ([(USER, "alice"), (CLIENT, None)], Limit(2, "alice", "app")),
        ([(USER, "alice"), (CLIENT, "app")], Limit(1, "alice", "app")),
    ]
    assert table.limit(PRODUCER_RATE, "alice", "app") is None
    for entity, expected in lines:
        table.alter(entity, {PRODUCER_RATE: expected.bound})
        assert table.limit(PRODUCER_RATE, "alice", "app") == expected
    assert table.limit(CONSUMER_RATE, "alice", "app") is None
    assert table.limit(PRODUCER_RATE, "bob", "other") == Limit(5, "bob", "other")


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ([], PRODUCER_RATE, 1.0),
        ([("shoe", "x")], PRODUCER_RATE, 1.0),
        ([(USER, "")], PRODUCER_RATE, 1.0),
        ([(USER, "a"), ("ip", "1.2.3.4")], PRODUCER_RATE, 1.0),
        ([("ip", "1.2.3.4")], PRODUCER_RATE, 1.0),
        ([(USER, "a")], "connection_creation_rate", 1.0),
        ([(USER, "a")], PRODUCER_RATE, 0.0),
        ([(USER, "a")], PRODUCER_RATE, 1.5),
        ([(USER, "a")], PRODUCER_RATE, 2.0**65),
    ],
)
def test_invalid_quotas_are_errors(
    entity: list[tuple[str, str | None]], key: str, value: float
) -> None:
    table = QuotaTable()
    with pytest.raises(InvalidRequestError):
        table.alter(entity, {key: value})
    assert table.is_empty


def test_altering_and_finding() -> None:
    journal = Remembering()
    table = QuotaTable(journal)
    table.alter([(USER, "alice")], {PRODUCER_RATE: 5.0, REQUEST_PERCENTAGE: 0.5})
    table.alter([(USER, "alice"), (CLIENT, None)], {PRODUCER_RATE: 6.0})
    table.alter([(USER, "bob")], {PRODUCER_RATE: 7.0}, validate_only=True)
    table.alter([(USER, "alice")], {PRODUCER_RATE: None, "no_such": None})
    alone = (entity_of([(USER, "alice")]), {REQUEST_PERCENTAGE: 0.5})
    both = (entity_of([(CLIENT, None), (USER, "alice")]), {PRODUCER_RATE: 6.0})
    for again in (table, QuotaTable(journal)):
        for which, found in [
            (QuotaFilter({}, frozenset(), strict=False), [alone, both]),
            (QuotaFilter({USER: "alice"}, frozenset(), strict=True), [alone]),
            (QuotaFilter({USER: "bob"}, frozenset(), strict=False), []),
            (QuotaFilter({CLIENT: None}, frozenset({USER}), strict=True), [both]),
            (QuotaFilter({}, frozenset({CLIENT}), strict=False), [both]),
        ]:
            assert sorted(again.find(which)) == sorted(found)
    table.alter([(USER, "alice")], {REQUEST_PERCENTAGE: None})
    table.alter([(CLIENT, None), (USER, "alice")], {PRODUCER_RATE: None})
    assert table.is_empty
    assert QuotaTable(journal).is_empty


def test_impossible_filters_are_errors() -> None:
    with pytest.raises(UnsupportedVersionError):
        QuotaFilter({"shoe": None}, frozenset(), strict=False).check()
    with pytest.raises(InvalidRequestError):
        QuotaFilter({"ip": None}, frozenset({USER}), strict=False).check()


class Broker:
    """Throttles with a clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.quotas = QuotaTable()
        self.throttles = Throttles(self.quotas, self.clock)

    def charge(
        self, size: int = 0, key: ApiKey = ApiKey.PRODUCE, client: str = "app", busy: float = 0.0
    ) -> Throttle:
        return self.throttles.charge(key, ALICE, client, size, busy)


def test_a_rate_is_over_the_last_windows() -> None:
    broker = Broker()
    assert not broker.throttles.active
    broker.quotas.alter([(USER, "alice")], {PRODUCER_RATE: 1000.0})
    assert broker.throttles.active
    # At first ten windows count as passed: 10,000 bytes are 1000 a second.
    assert broker.charge(10_000).ms == 0
    # 20,000 bytes in 10 s are twice what is allowed: 10 s more are needed.
    assert broker.charge(10_000).ms == 10_000
    assert broker.charge(10_000, client="other").ms == 20_000  # the user's clients share it
    broker.clock.advance(10.0)
    assert broker.charge(0).ms == 20_000  # 30,000 bytes in 10 s
    broker.clock.advance(12.0)
    assert broker.charge(10_000).ms == 0  # the window eleven windows ago has expired


def test_others_are_not_charged() -> None:
    broker = Broker()
    broker.quotas.alter([(USER, "bob")], {PRODUCER_RATE: 1.0})
    broker.quotas.alter([(CLIENT, "slow")], {CONSUMER_RATE: 1.0})
    assert broker.charge(10**9).ms == 0
    assert broker.charge(10**9, client="slow").ms == 0
    assert broker.charge(10**9, ApiKey.METADATA, client="slow").ms == 0


def test_a_throttled_fetch_is_empty_and_does_not_count() -> None:
    broker = Broker()
    broker.quotas.alter([(USER, "alice")], {CONSUMER_RATE: 1000.0})
    assert broker.throttles.largest_fetch("alice", "app") == 10_000
    assert broker.throttles.largest_fetch("bob", "app") is None
    assert broker.charge(10_000, ApiKey.FETCH) == Throttle(0)
    assert broker.charge(5_000, ApiKey.FETCH) == Throttle(5_000, empties_fetch=True)
    assert broker.charge(0, ApiKey.FETCH) == Throttle(0)


def test_time_that_the_broker_was_kept_busy() -> None:
    broker = Broker()
    broker.quotas.alter([(CLIENT, "app")], {REQUEST_PERCENTAGE: 1.0})
    assert broker.charge(busy=0.1).ms == 0  # a tenth of a second in ten: one percent
    assert broker.charge(busy=0.01).ms == 1000  # never more than a window
    assert broker.charge(0, ApiKey.FETCH, busy=0.01) == Throttle(1000, empties_fetch=True)


@pytest.mark.parametrize("bound", [float("inf"), float("nan")])
def test_a_bound_that_is_no_number_never_throttles(bound: float) -> None:
    table = QuotaTable()
    table.alter([(USER, "alice")], {REQUEST_PERCENTAGE: bound})
    if bound != float("inf"):
        table.alter([(USER, "alice")], {CONSUMER_RATE: bound})
    throttles = Throttles(table, VirtualClock())
    assert throttles.charge(ApiKey.FETCH, ALICE, "app", 1000, 1.0) == Throttle(0)
    assert throttles.largest_fetch("alice", "app") is None


def test_throttles_by_a_test() -> None:
    broker = Broker()
    broker.throttles.set(0.5, api_key=ApiKey.PRODUCE, client_id="app")
    broker.throttles.set(0.25, principal=ALICE)
    assert broker.throttles.active
    assert broker.charge() == Throttle(500)
    assert broker.charge(client="other") == Throttle(250)
    assert broker.charge(0, ApiKey.FETCH) == Throttle(250)
    assert broker.throttles.charge(ApiKey.PRODUCE, "User:bob", "app", 0, 0.0) == Throttle(500)
    assert broker.throttles.charge(ApiKey.FETCH, "User:bob", "app", 0, 0.0) == Throttle(0)
    broker.throttles.set(0.0, principal=ALICE)
    assert broker.charge(client="other") == Throttle(0)
    broker.throttles.clear()
    assert not broker.throttles.active
    with pytest.raises(ValueError, match="must not be negative"):
        broker.throttles.set(-1.0)
