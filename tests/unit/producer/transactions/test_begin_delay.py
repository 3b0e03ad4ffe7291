"""How long the first request of a transaction waits for the end of the one before."""

from aiokafka_lite.producer.transactions.begin_delay import (
    LONGEST,
    PARKED,
    PROMPT,
    REST,
    STEP,
    VAIN,
    BeginDelay,
)

KEPT = PARKED + 0.002  # seconds
AT_ONCE = 0.002


class Brokers:
    """That end a transaction `busy` seconds after they said so, on a clock of its own."""

    def __init__(self, busy: float, delay: BeginDelay) -> None:
        self.busy = busy
        self.delay = delay
        self.now = 100.0

    def transact(self, *, idle: float = 0.0) -> bool:
        """One transaction, begun `idle` seconds after the end of the one before; whether its
        first request was kept."""
        ended = self.now
        self.delay.on_ended(ended)
        self.now = max(ended + idle, self.delay.opens_at())
        self.delay.on_sent(self.now)
        kept = self.now < ended + self.busy
        self.now += KEPT if kept else AT_ONCE
        self.delay.on_answered(self.now)
        return kept


def test_nothing_is_waited_for_at_first() -> None:
    delay = BeginDelay()
    assert delay.opens_at() < 0.0
    delay.on_ended(7.0)
    assert delay.opens_at() == 7.0


def test_learns_how_long_the_brokers_take() -> None:
    brokers = Brokers(0.0035, BeginDelay())
    assert [brokers.transact() for _ in range(5)] == [True] * 4 + [False]
    assert sum(brokers.transact() for _ in range(1000)) < 1000 / PROMPT
    assert brokers.delay.hold < brokers.busy + STEP


def test_waits_less_when_the_brokers_become_faster() -> None:
    brokers = Brokers(0.0055, BeginDelay())
    for _ in range(10):
        brokers.transact()
    brokers.busy = 0.0
    assert not any(brokers.transact() for _ in range(PROMPT * 20))
    assert brokers.delay.hold == 0.0


def test_gives_up_when_waiting_is_in_vain() -> None:
    brokers = Brokers(1.0, BeginDelay())
    held = 0
    for _ in range(round(LONGEST / STEP) + VAIN):
        held = max(held, brokers.delay.hold)
        assert brokers.transact()
    assert held == LONGEST
    for _ in range(REST):
        assert brokers.delay.hold == 0.0
        brokers.transact()
    brokers.transact()
    assert brokers.delay.hold == STEP, "and is tried again"


def test_late_answers_tell_nothing_when_the_one_before_is_long_over() -> None:
    brokers = Brokers(1.0, BeginDelay())
    for _ in range(5):
        assert brokers.transact(idle=0.5)
    assert brokers.delay.hold == 0.0


def test_the_first_transaction_tells_nothing() -> None:
    delay = BeginDelay()
    delay.on_sent(100.0)
    delay.on_answered(100.0 + KEPT)
    assert delay.hold == 0.0
