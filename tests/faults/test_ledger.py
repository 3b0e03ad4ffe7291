"""Tests of the ledger that judges the producer's chaos."""

from tests.faults.ledger import Ledger


def test_order_is_checked_per_producer() -> None:
    """A record that one producer abandoned may be written after the next producer has started;
    it keeps its place among its own."""
    ledger = Ledger()
    values = []
    for _ in range(2):
        ledger.next_producer()
        for _ in range(2):
            number, value = ledger.enter("orders", lane=7)
            values.append(value)
            ledger.abandoned(number)

    def judged(*order: int) -> list[str]:
        return ledger.judge({"orders": {0: [(at, values[n]) for at, n in enumerate(order)]}})

    assert judged(0, 1, 2, 3) == []
    assert judged(2, 0, 1, 3) == []
    assert [what.partition(":")[0] for what in judged(2, 1, 0, 3)] == ["out of order"]
    assert [what.partition(":")[0] for what in judged(0, 1, 2, 2)] == ["twice", "out of order"]
