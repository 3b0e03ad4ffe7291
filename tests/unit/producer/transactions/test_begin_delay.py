"""How long the first request of a transaction waits for the end of the previous one."""

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
    """Brokers that end a transaction `busy` seconds after their response, with their own clock."""

    def __init__(self, busy: float, delay: BeginDelay) -> None:
        self.busy = busy
        self.delay = delay
        self.now = 100.0

    def transact(self, *, idle: float = 0.0) -> bool:
        """Run a transaction, begun `idle` seconds after the last one ended.

        Returns:
            True if the broker held its first request.
        """

        ended = self.now
        self.delay.on_ended(ended)
        self.now = max(ended + idle, self.delay.opens_at())
        self.delay.on_sent(self.now)
        kept = self.now < ended + self.busy
        self.now += KEPT if kept else AT_ONCE
        self.delay.on_answered(self.now)
        return kept


def test_there_is_no_delay_at_first() -> None:
    delay = BeginDelay()
    assert delay.opens_at() < 0.0
    delay.on_ended(7.0)
    assert delay.opens_at() == 7.0


def test_the_delay_follows_the_brokers() -> None:
    brokers = Brokers(0.0035, BeginDelay())
    assert [brokers.transact() for _ in range(5)] == [True] * 4 + [False]
    assert sum(brokers.transact() for _ in range(1000)) < 1000 / PROMPT
    assert brokers.delay.hold < brokers.busy + STEP


def test_the_delay_shrinks_when_the_brokers_become_faster() -> None:
    brokers = Brokers(0.0055, BeginDelay())
    for _ in range(10):
        brokers.transact()
    brokers.busy = 0.0
    assert not any(brokers.transact() for _ in range(PROMPT * 20))
    assert brokers.delay.hold == 0.0


def test_a_delay_that_does_not_help_is_dropped() -> None:
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


def test_responses_long_after_the_last_transaction_are_not_counted() -> None:
    brokers = Brokers(1.0, BeginDelay())
    for _ in range(5):
        assert brokers.transact(idle=0.5)
    assert brokers.delay.hold == 0.0


def test_the_first_transaction_is_not_counted() -> None:
    delay = BeginDelay()
    delay.on_sent(100.0)
    delay.on_answered(100.0 + KEPT)
    assert delay.hold == 0.0
