"""EndTxn in every state, in both generations, requested once and repeated."""

import pytest

from aiokafka_lite.errors import (
    BrokerResponseError,
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)
from aiokafka_lite.testing.transactions.ending import must_end
from aiokafka_lite.testing.transactions.transaction import (
    ProducerIdentity,
    Transaction,
    TransactionState,
)

EPOCH = 5

# (state, (abort, commit)): E it ends, N nothing happens, and the errors: C concurrent transactions,
# I invalid state, F fenced.
OF_OLD = {"Empty": "II", "Ongoing": "EE", "PrepareCommit": "IC", "PrepareAbort": "CI"} | {
    "CompleteCommit": "IN",
    "CompleteAbort": "NI",
}
CURRENT = {"Empty": "EI", "Ongoing": "EE", "PrepareCommit": "FF", "PrepareAbort": "FF"} | {
    "CompleteCommit": "EI",
    "CompleteAbort": "EI",
}
ONCE_MORE = {"Empty": "FF", "Ongoing": "FF", "PrepareCommit": "IC", "PrepareAbort": "CI"} | {
    "CompleteCommit": "IN",
    "CompleteAbort": "NI",
}
LETTERS: dict[type[BrokerResponseError], str] = {
    ConcurrentTransactions: "C",
    InvalidTxnState: "I",
    ProducerFenced: "F",
    InvalidProducerIdMapping: "M",
}


def outcome(
    state: str, asked: ProducerIdentity, *, committed: bool, bumps: bool, previous: int = -1
) -> str:
    transaction = Transaction("mine", 1, 60_000)
    transaction.producer = ProducerIdentity(1, EPOCH if previous < 0 else 0)
    transaction.previous_producer_id = previous
    transaction.state = TransactionState(state)
    try:
        ends = must_end(transaction, asked, committed=committed, bumps=bumps)
    except BrokerResponseError as error:
        return LETTERS[type(error)]
    return "E" if ends else "N"


def outcomes(asked: ProducerIdentity, *, bumps: bool, previous: int = -1) -> dict[str, str]:
    return {
        state: "".join(
            outcome(state, asked, committed=committed, bumps=bumps, previous=previous)
            for committed in (False, True)
        )
        for state in OF_OLD
    }


def test_without_epoch_bumps() -> None:
    assert outcomes(ProducerIdentity(1, EPOCH), bumps=False) == OF_OLD
    for epoch in (EPOCH - 1, EPOCH + 1):
        assert set(outcomes(ProducerIdentity(1, epoch), bumps=False).values()) == {"FF"}


def test_with_epoch_bumps() -> None:
    assert outcomes(ProducerIdentity(1, EPOCH), bumps=True) == CURRENT
    assert outcomes(ProducerIdentity(1, EPOCH - 1), bumps=True) == ONCE_MORE
    for epoch in (EPOCH - 2, EPOCH + 1):
        assert set(outcomes(ProducerIdentity(1, epoch), bumps=True).values()) == {"FF"}


def test_once_more_after_the_last_epoch() -> None:
    repeated = outcomes(ProducerIdentity(7, 32_766), bumps=True, previous=7)
    over = {state: found for state, found in repeated.items() if state.startswith("Complete")}
    assert over == {"CompleteCommit": "IN", "CompleteAbort": "NI"}
    assert set(outcomes(ProducerIdentity(7, 32_765), bumps=True, previous=7).values()) == {"MM"}


@pytest.mark.parametrize("bumps", [False, True])
def test_another_producer_id(bumps: bool) -> None:
    assert set(outcomes(ProducerIdentity(2, EPOCH), bumps=bumps).values()) == {"MM"}
