"""Two time windows; the older one is dropped when the newer one ends."""

from aiokafka_lite._stats import WINDOW, Recent


def count(recent: Recent[list[int]], value: int, now: float) -> None:
    if now >= recent.over:
        recent.turn(now)
    recent.new.append(value)


def test_the_first_window_begins_with_the_first_value() -> None:
    recent: Recent[list[int]] = Recent(list)
    for second in range(10):
        count(recent, second, 100 + second)
    assert (recent.new, recent.old) == (list(range(10)), [])
    assert recent.over == 100 + WINDOW
    assert recent.elapsed(110) == 10


def test_early_rate_is_bounded() -> None:
    recent: Recent[list[int]] = Recent(list)
    count(recent, 1, 100)
    assert recent.elapsed(100) == 1


def test_the_older_window_is_dropped_when_the_newer_is_over() -> None:
    recent: Recent[list[int]] = Recent(list)
    count(recent, 10, 0)
    count(recent, 2, 31)
    assert (recent.old, recent.new) == ([10], [2])
    assert recent.elapsed(31) == 31
    assert recent.elapsed(59) == 59
    recent.turn(61)
    assert (recent.old, recent.new) == ([2], []), "the first window is forgotten"
    assert recent.elapsed(61) == 31


def test_old_windows_are_dropped_at_once() -> None:
    recent: Recent[list[int]] = Recent(list)
    count(recent, 10, 0)
    count(recent, 7, 10_000)
    assert (recent.old, recent.new) == ([], [7])
    assert recent.over == 9_990 + WINDOW, "the windows keep their pace"
    assert recent.elapsed(10_000) == 10


def test_a_window_without_a_value_counts_as_time() -> None:
    recent: Recent[list[int]] = Recent(list)
    count(recent, 1, 0)
    recent.turn(30)  # a read without a value
    count(recent, 2, 60)
    assert (recent.old, recent.new) == ([], [2])
    assert recent.elapsed(61) == 31
