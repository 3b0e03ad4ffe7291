"""A missing dispatch anywhere in the producer makes the random outages fail.

The accumulator does not return ready partitions; it calls the sender at once. So no caller can drop
the result, but each of these calls must be made. These tests remove them one by one.
"""

from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from aiokafka_lite.errors import KafkaError
from tests.unit.producer.dispatch_mutants import Mutant, mutants, without
from tests.unit.producer.outage_walk import isolated, walk

SEEDS = range(8)

REDUNDANT = {
    "BatchCore.add_open: self._on_ready": "closing the earlier batches has offered the queue",
    "Outbox.on_failure: self.wake": "a batch that is put back offers its queue, which wakes it",
    "Outcomes.on_unsendable: self._accumulator.go_on": "the walk has no batch that fails to encode",
    "Sender._on_metadata: self._place": "`_on_ready` places the queue, too",
    "Sender._on_ready: queue.outbox.wake": "the outbox was woken when the queue was listed",
}
"""Calls without which no batch of a walk is stranded, and why."""

CONDITIONS: dict[str, dict[str, Any]] = {
    "Outbox.on_written: self.wake": {"kind": "without answers", "in_flight": 1, "partitions": 3},
    "Outcomes._judge: self.ids.want": {"kind": "idempotent"},
    "IdSource._get: self._on_settled": {"kind": "idempotent"},
    "Outbox.on_response: self.wake": {"in_flight": 1, "partitions": 3},
}
"""Options under which a call matters most; without an entry, any options."""


def fails(room: dict[str, ModuleType], **options: Any) -> bool:
    """True if a walk fails: an invariant does not hold, or a record is not stored afterwards."""
    for seed in SEEDS:
        try:
            walk(room, seed, examples=15, shrink=False, **options)
        except (AssertionError, KafkaError):
            return True
    return False


@pytest.mark.parametrize("callback", ["_on_ready", "_on_opened", "_on_lingering", "_arm_sweep"])
def test_outages_reveal_a_callback_that_is_not_made(
    room: dict[str, ModuleType], callback: str
) -> None:
    senders = [room["sender"].Sender, room["transactional_sender"].TransactionalSender]
    with isolated(room), patch.object(senders[0], callback, lambda *_: None):
        if callback in vars(senders[1]):
            with patch.object(senders[1], callback, lambda *_: None):
                assert fails(room)
        else:
            assert fails(room)


@pytest.mark.parametrize("imported", ["python"], indirect=True)
@pytest.mark.parametrize("mutant", [*mutants()], ids=str)
def test_outages_reveal_a_call_that_is_missing(room: dict[str, ModuleType], mutant: Mutant) -> None:
    if str(mutant) in REDUNDANT:
        pytest.skip(REDUNDANT[str(mutant)])
    with isolated(room), without(room, mutant):
        assert fails(room, **CONDITIONS.get(str(mutant), {}))
