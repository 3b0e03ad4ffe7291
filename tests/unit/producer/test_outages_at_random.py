"""Random outages: every record has its outcome by its timeout, and no batch is stranded."""

from types import ModuleType

import pytest

from tests.seeds import exploring, seeds
from tests.unit.producer.outage_walk import isolated, walk


@pytest.mark.timeout(600)  # a failing walk of `make explore` is reduced, which takes a while
@pytest.mark.parametrize("seed", seeds(4))
def test_every_record_has_an_outcome_and_no_batch_is_stranded(
    room: dict[str, ModuleType], seed: int
) -> None:
    with isolated(room):
        walk(room, seed, examples=15, shrink=exploring())
