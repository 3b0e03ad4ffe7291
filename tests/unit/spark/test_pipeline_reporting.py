"""What a pipeline prints while it runs, and when it has ended."""

import io

from aiokafka_lite.spark.pipeline.reporting import ProgressLine, Summary, Tally
from aiokafka_lite.spark.progress import Lag, Progress


def batch(number: int, rows: int = 10, lag: Lag | None = None) -> Progress:
    return Progress("q", "run", number, rows, None, 1.0, lag, None, "2026-11-21T10:00:00Z")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_line_is_rewritten_in_place():
    out = Terminal()
    line = ProgressLine(out)
    line.show(batch(0, rows=1_000_000))
    line.show(batch(1))
    line.close()
    first = batch(0, rows=1_000_000).line()
    assert out.getvalue() == f"\r{first}\r{batch(1).line().ljust(len(first))}\n"


def test_without_a_terminal_lines_are_rate_limited():
    out, now = io.StringIO(), [100.0]
    line = ProgressLine(out, clock=lambda: now[0])
    for number in range(3):
        line.show(batch(number))
        now[0] += 1.0
    now[0] += 5.0
    line.show(batch(3))
    line.show(batch(4))
    line.close()
    assert out.getvalue().splitlines() == [batch(n).line() for n in (0, 3, 4)]


def test_nothing_shown_leaves_nothing():
    for out in (io.StringIO(), Terminal()):
        ProgressLine(out).close()
        assert out.getvalue() == ""


def test_a_batch_reported_twice_counts_once():
    tally = Tally()
    for number in (0, 2, 1, 2):
        tally.add(batch(number, rows=0 if number == 0 else 10))
    summary = tally.summary("orders", "stopped")
    assert (summary.rows, summary.batches, summary.last) == (20, 2, batch(2))


def test_a_summary_contains_rows_batches_time_rate_and_lag():
    last = batch(4, lag=Lag(7, 5, 2, 3.5))
    assert str(Summary("orders", "stopped", 1_200, 3, 2.0, last)) == (
        "orders: stopped: 1,200 rows in 3 batches, 2.0 s, 600 rows/s; final lag 7"
    )
    assert str(Summary("orders", "all read", 0, 1, 2.0)) == (
        "orders: all read: 0 rows in 1 batch, 2.0 s"
    )
