"""The ledger of a recreated topic, and a short run on the embedded broker."""

from collections.abc import Callable

import pytest

from aiokafka_lite.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from aiokafka_lite.testing import FakeCluster
from tests.faults import recreated_topic
from tests.faults.recreated_topic import Lives, play_recreations
from tests.faults.schedule import Happenings

Log = dict[int, list[tuple[int, int]]]
NOTHING: Log = {0: [], 1: [], 2: []}


def lives(count: int = 3, life: int = 1) -> Lives:
    """A ledger with records of one life in partition 0, each acknowledged at its number."""
    found = Lives(life=life)
    for number in range(count):
        assert found.send("plain", 0) == number
        found.acknowledge(number, number)
    return found


def log_of(*records: tuple[int, int]) -> Log:
    return {**NOTHING, 0: list(records)}


def test_a_log_with_each_acknowledged_record_once_is_right() -> None:
    assert lives().judge(log_of((0, 0), (1, 1), (2, 2)), []) == []


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (log_of((0, 0), (1, 1)), "record 2 was acknowledged at 2, and is not there"),
        (log_of((0, 0), (1, 1), (2, 2), (3, 1)), "record 1 is stored twice in 0"),
        (log_of((0, 0), (2, 2), (1, 1)), "record 1 of ('plain', 0) is stored out of order"),
        (log_of((0, 0), (1, 1), (3, 2)), "record 2 was acknowledged at 2, and is not there"),
    ],
)
def test_lost_doubled_disordered_and_misplaced_records_are_reported(log: Log, words: str) -> None:
    assert words in lives().judge(log, [])


def test_records_of_lives_before_the_last_are_gone_with_their_topic() -> None:
    ledger = lives()
    ledger.life = 3
    assert ledger.judge(NOTHING, []) == []
    wrong = ledger.judge(log_of((0, 0)), [])
    assert wrong == ["record 0 of life 1 is in the last log"]


def test_a_stored_record_whose_error_denies_that_is_reported() -> None:
    ledger = Lives(life=1)
    ledger.fail(ledger.send("plain", 0), UnknownTopicOrPartitionError("not written"))
    ledger.fail(ledger.send("plain", 0), KafkaTimeoutError("it MAY have been written"))
    assert ledger.judge(log_of((0, 0), (1, 1)), []) == [
        "record 0 is stored, and its error denies that"
    ]


def test_a_transaction_that_is_stored_in_part_is_reported() -> None:
    ledger = Lives(life=1)
    numbers = [ledger.send("transactional", partition) for partition in range(3)]
    whole: Log = {0: [(0, 0)], 1: [(0, 1)], 2: [(0, 2)]}
    assert ledger.judge(whole, [numbers]) == []
    assert ledger.judge(NOTHING, [numbers]) == []
    assert ledger.judge({**whole, 1: []}, [numbers]) == [
        "2 of a transaction's 3 records are stored"
    ]


def test_records_that_a_group_was_not_given_are_lacking() -> None:
    ledger = lives()
    for number in (0, 2):
        ledger.give("g", 0, number, number, ordered=False)
    assert ledger.lacking(ledger.settled(), ["g"]) == {"g": [1]}
    ledger.life = 2
    assert ledger.settled() == []


def test_a_record_that_is_skipped_and_given_later_is_reported() -> None:
    ledger = lives()
    for number in (0, 2, 1, 2):
        ledger.give("g", 0, number, number, ordered=True)
    assert ledger.wrong == ["g: record 1 of ('plain', 0) was first given after 2"]


def test_a_record_moves_to_another_offset_only_with_a_later_life() -> None:
    ledger = lives()
    ledger.give("g", 0, 1, 1, ordered=True)
    ledger.give("g", 0, 5, 1, ordered=True)
    assert ledger.wrong == ["g: record 1 is at 1 and at 5"]
    ledger.gone = True
    ledger.give("g", 0, 0, 1, ordered=True)
    ledger.life, ledger.gone = 2, False
    ledger.give("g", 0, 3, 1, ordered=True)
    assert len(ledger.wrong) == 1


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, object], None]:
    def set_to(name: str, value: object) -> None:
        monkeypatch.setattr(recreated_topic, name, value)

    set_to("LIFE", (0.5, 1.0))
    set_to("GONE", (0.0, 0.5))
    set_to("SETTLE", 60.0)
    return set_to


async def test_all_clients_survive_recreations_of_their_topic(
    quick: Callable[[str, object], None],
) -> None:
    happenings = Happenings()
    async with FakeCluster(brokers=3, auto_create_topics=False) as cluster:
        wrong = await play_recreations(
            cluster.bootstrap_servers, 1, 3.0, happenings, share=True, modern=True
        )
    assert wrong == []
    assert happenings.count["recreate"] >= 1
