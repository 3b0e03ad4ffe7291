"""The output of a running pipeline: a live line on a terminal, else plain lines; a summary."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from aiokafka_lite.spark.progress import Progress

__all__ = ["ProgressLine", "Summary", "Tally"]

PLAIN_INTERVAL = 5.0  # seconds between two lines without a terminal


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run.

    Args:
        name: Name of the pipeline.
        ended: Why it ended: `stopped`, `all read`, ...
        rows: Rows read from its source; None if not counted.
        batches: Number of batches with rows.
        seconds: Duration of the query.
        last: The last batch's progress; None if there was none.
    """

    name: str
    ended: str
    rows: int | None
    batches: int
    seconds: float
    last: Progress | None = None

    def __str__(self) -> str:
        rows = "rows" if self.rows is None else f"{self.rows:,} rows"
        rate = "" if not self.rows else f", {self.rows / max(self.seconds, 1e-3):,.0f} rows/s"
        batches = "1 batch" if self.batches == 1 else f"{self.batches:,} batches"
        text = f"{self.name}: {self.ended}: {rows} in {batches}, {self.seconds:.1f} s{rate}"
        if self.last is not None and self.last.lag is not None:
            text += f"; final lag {self.last.lag.total:,}"
        return text


@dataclass(slots=True)
class Tally:
    """Totals a run's batches, counting each once however often it is reported.

    Spark's event for a batch may arrive late, even after the query's end. So the progress that the
    query itself keeps is also added after it has ended.
    """

    began: float = field(default_factory=time.monotonic)
    _rows: dict[int, int] = field(default_factory=dict)
    _last: Progress | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, progress: Progress) -> bool:
        """Add a batch; return False if it was added before."""
        with self._lock:
            if progress.batch_id in self._rows:
                return False
            self._rows[progress.batch_id] = progress.rows
            if self._last is None or progress.batch_id > self._last.batch_id:
                self._last = progress
            return True

    def summary(self, name: str, ended: str) -> Summary:
        with self._lock:
            return Summary(
                name=name,
                ended=ended,
                rows=sum(self._rows.values()),
                batches=sum(1 for rows in self._rows.values() if rows),
                seconds=time.monotonic() - self.began,
                last=self._last,
            )


class ProgressLine:
    """Shows progress: rewritten in place on a terminal, else as a line at intervals.

    Args:
        out: The output stream; by default standard error, because a console sink uses standard
            output.
        clock: Returns the time in seconds; for tests.
    """

    def __init__(
        self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out = sys.stderr if out is None else out
        self._clock = clock
        self._live = self._out.isatty()
        self._width = 0
        self._said = -PLAIN_INTERVAL
        self._kept: Progress | None = None

    def show(self, progress: Progress) -> None:
        if self._live:
            line = progress.line()
            self._out.write("\r" + line.ljust(self._width))
            self._width = len(line)
            self._out.flush()
        elif self._clock() - self._said >= PLAIN_INTERVAL:
            self._said = self._clock()
            self._kept = None
            print(progress.line(), file=self._out, flush=True)
        else:
            self._kept = progress

    def close(self) -> None:
        """Keep the last line on the terminal."""
        if self._live and self._width:
            self._out.write("\n")
        elif self._kept is not None:
            print(self._kept.line(), file=self._out)
        self._out.flush()
