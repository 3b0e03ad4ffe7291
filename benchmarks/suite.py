"""What a comparison is made of: its rows, what is done in them, and the bars it is judged by."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OURS = "aiokafka_lite"
UVLOOP = "aiokafka_lite, uvloop"

Runs = Mapping[str, Sequence[Mapping[str, Any]]]
"""By a row's label, the figures of each of its runs."""


@dataclass(frozen=True, slots=True)
class Row:
    """One client doing a suite's work; `options` override the suite's own."""

    label: str
    client: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure has to reach: as it is, or as a share of another row's of the same rounds.

    Attributes:
        figure: Its name, such as "cpu_us".
        most: It may be so large at most, ...
        least: ... or has to be so large.
        of: The row of whose figure `most` and `least` are a share; None: they stand for themselves.
        more: By how much it may be above that share.
        row: Whose figure it is.
    """

    figure: str
    most: float | None = None
    least: float | None = None
    of: str | None = None
    more: float = 0.0
    row: str = OURS

    def verdict(self, runs: Runs) -> str | None:
        """One line: what was wanted, what was measured, met or missed; None without figures."""
        values = _values(runs, self.row, self.figure)
        others = _values(runs, self.of, self.figure) if self.of is not None else [1.0]
        if not values or not others:
            return None
        value, unit = statistics.median(values), statistics.median(others)
        limit = self.most if self.most is not None else self.least
        if limit is None:
            raise ValueError(f"a bar of {self.figure} without a limit")
        least = self.most is None
        allowed = limit * unit + self.more
        met = value >= allowed if least else value <= allowed
        wanted = f"at {'least' if least else 'most'} {limit:g}"
        measured = f"{value:.4g}"
        if self.of is not None:
            wanted += f" of {self.of}" + (f" and {self.more:g} more" if self.more else "")
            best = min(values) / min(others)
            measured = f"{value / unit:.3f} ({value:.4g} and {unit:.4g}; of the minima {best:.3f})"
        return f"{'met   ' if met else 'MISSED'} {self.row}: {self.figure} {wanted}: {measured}"


@dataclass(frozen=True, slots=True)
class Suite:
    """A comparison whose rows are run interleaved.

    Attributes:
        options: Of the `Work`, for all rows.
        reads: Whether the topic is filled before; suites of the same topic share it.
        reference: The row ratios are taken to.
        figure: Of what they are taken.
        bars: What it is judged by.
        most_rounds: A figure that hardly varies needs no more.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    options: dict[str, Any] = field(default_factory=dict)
    reads: bool = False
    reference: str = "confluent"
    figure: str = "cpu_us"
    bars: tuple[Bar, ...] = ()
    most_rounds: int = 1000


def _values(runs: Runs, row: str, figure: str) -> list[float]:
    return [run[figure] for run in runs.get(row, ()) if figure in run]
