"""What a running pipeline prints: a line that lives on a terminal, lines elsewhere, a summary."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from aiokafka_lite.spark.progress import Progress

__all__ = ["ProgressLine", "Summary", "Tally"]

PLAIN_INTERVAL = 5.0  # seconds between two lines where there is no terminal


@dataclass(frozen=True, slots=True)
class Summary:
    """A run's end, in figures.

    Args:
        name: Of the pipeline.
        ended: Why it did: `stopped`, `all read`, ...
        rows: Read from its source; None where nobody counted.
        batches: That had rows.
        seconds: From the query's start to its end.
        last: The last batch's progress; None where there was none.
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
            text += f"; {self.last.lag.total:,} behind the newest"
        return text


@dataclass(slots=True)
class Tally:
    """Adds up a run's batches, each once however often it is told of.

    Spark tells of a batch by an event that may come late, even after the query's end; so what the
    query itself remembers is told here, too, when it has ended.
    """

    began: float = field(default_factory=time.monotonic)
    _rows: dict[int, int] = field(default_factory=dict)
    _last: Progress | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, progress: Progress) -> bool:
        """Take a batch; False for one that was told before."""
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
    """Shows progress: rewritten in place on a terminal, else a line now and then.

    Args:
        out: Where it goes; standard error without, as the rows of a console sink go to the other.
        clock: Seconds; for tests.
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
        """Leave the last line where it is."""
        if self._live and self._width:
            self._out.write("\n")
        elif self._kept is not None:
            print(self._kept.line(), file=self._out)
        self._out.flush()
