"""The checks of `python -m tools.spark soak`, without Spark or Java."""

import pytest

from tools.spark.soak import check, merged


def facts(first: int, last: int) -> tuple[int, int, int, int]:
    offsets = range(first, last)
    return len(offsets), first, last - 1, sum(offsets)


def test_micro_batches_add_up_and_repeated_ones_count_once() -> None:
    found = [
        (0, {"0": facts(0, 5), "1": facts(0, 3)}),
        (1, {"0": facts(5, 9), "1": facts(3, 9)}),
        (1, {"0": facts(5, 9), "1": facts(3, 9)}),  # after a kill
    ]
    assert merged(found) == {"0": facts(0, 9), "1": facts(0, 9)}
    assert check(merged(found), 2, 9) is None


def test_repeated_micro_batch_with_other_records_is_reported() -> None:
    with pytest.raises(ValueError, match="micro-batch 1 was repeated with other records"):
        merged([(1, {"0": facts(5, 9)}), (1, {"0": facts(5, 8)})])


@pytest.mark.parametrize(
    "found",
    [
        [(0, {"0": facts(0, 8)})],  # one is missing at the end
        [(0, {"0": facts(0, 4)}), (1, {"0": facts(5, 9)})],  # one in the middle
        [(0, {"0": facts(0, 5)}), (1, {"0": facts(4, 9)})],  # one is duplicated
        [(0, {"0": (9, 0, 8, 35)})],  # one instead of another
        [],
    ],
)
def test_missing_and_duplicate_records_are_reported(
    found: list[tuple[int, dict[str, tuple[int, int, int, int]]]],
) -> None:
    problem = check(merged(found), 1, 9)
    assert problem is not None
    assert problem.startswith("delivered {0: ")
