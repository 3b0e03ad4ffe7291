"""How the Spark lane is judged."""

from tests.faults.spark_lane import judge_copies

ENDS = {("spark-input", 0): 3, ("spark-input", 1): 2}
COPIES = [b"%d %d %012d..." % (p, o, o) for (_, p), end in ENDS.items() for o in range(end)]


def test_each_record_copied_once_in_any_order_is_right() -> None:
    assert judge_copies(reversed(COPIES), ENDS) == []


def test_missing_and_doubled_copies_are_reported() -> None:
    assert judge_copies([*COPIES[1:], COPIES[4]], ENDS) == [
        "1 of 3 records of partition 0 were not copied",
        "1 of 2 records of partition 1 were copied more than once",
    ]


def test_copies_of_other_records_are_reported() -> None:
    assert judge_copies([*COPIES, b"1 2 000000000002..."], ENDS) == [
        "1 copies are of no record, such as (1, 2)"
    ]
    assert judge_copies([b"0 0 000000000001...", *COPIES[1:]], ENDS) == [
        "the copy of 0@0 has the value b'000000000001...'"
    ]
