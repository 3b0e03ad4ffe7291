"""Defines comparisons: suites, their rows, and the bars that judge them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

OURS = "aiokafka_lite"
UVLOOP = "aiokafka_lite, uvloop"

Runs = Mapping[str, Sequence[Mapping[str, Any]]]
"""Figures of each run, by row label."""


@dataclass(frozen=True, slots=True)
class Row:
    """One client that does a suite's work; `options` override those of the suite."""

    label: str
    client: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bar:
    """Limit of a figure: absolute, or relative to another row of the same rounds.

    Attributes:
        figure: Name of the figure, such as "cpu_us".
        most: Upper limit.
        least: Lower limit, used if there is no upper limit.
        of: Row whose figure multiplies the limit; None if the limit is absolute.
        more: Amount added to the limit, in the unit of the figure.
        row: Row whose figure the bar judges.
    """

    figure: str
    most: float | None = None
    least: float | None = None
    of: str | None = None
    more: float = 0.0
    row: str = OURS

    def judge(self, runs: Runs) -> Verdict | None:
        """Return whether the figure is within the limit; None without figures."""
        values = _values(runs, self.row, self.figure)
        others = _values(runs, self.of, self.figure) if self.of is not None else [1.0]
        if not values or not others:
            return None
        value, unit = statistics.median(values), statistics.median(others)
        limit = self.most if self.most is not None else self.least
        if limit is None:
            raise ValueError(f"the bar for {self.figure} has no limit")
        least = self.most is None
        allowed = limit * unit + self.more
        met = value >= allowed if least else value <= allowed
        wanted = f"at {'least' if least else 'most'} {_number(limit)}"
        measured = _number(value)
        if self.of is not None:
            wanted += f" of {self.of}" + (f" and {self.more:g} more" if self.more else "")
            best = min(values) / min(others)
            both = f"{_number(value)} and {_number(unit)}"
            measured = f"{value / unit:.3f} ({both}; by the minima {best:.3f})"
        return Verdict(met, self.row, self.figure, wanted, measured)


class Verdict(NamedTuple):
    """A judged bar."""

    met: bool
    row: str
    figure: str
    wanted: str
    """The limit."""
    measured: str

    def __str__(self) -> str:
        verdict = "met   " if self.met else "MISSED"
        return f"{verdict} {self.row}: {self.figure} {self.wanted}: {self.measured}"


@dataclass(frozen=True, slots=True)
class Suite:
    """A comparison whose rows run in interleaved rounds.

    Attributes:
        options: Options of `Work` for all rows.
        reads: True if the topic is filled in advance; suites with the same data share it.
        reference: Row to which the table's ratios refer.
        figure: Figure whose ratios the table shows.
        bars: Bars that judge the suite.
        most_rounds: Maximum number of rounds, for figures that hardly vary.
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


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10_000 else f"{value:.4g}"


def _values(runs: Runs, row: str, figure: str) -> list[float]:
    return [run[figure] for run in runs.get(row, ()) if figure in run]
