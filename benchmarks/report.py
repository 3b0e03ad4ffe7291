"""Formats a suite's figures as a Markdown table, and the verdicts of its bars."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .suite import Runs, Suite, Verdict

FIGURES: Final[Mapping[str, tuple[str, int]]] = {
    "cpu_us": ("CPU us/record", 2),
    "cold_ms": ("first record, ms", 0),
    "cold_cpu_ms": ("CPU ms", 0),
    "batch_ms": ("ms/micro-batch", 1),
    "cpu_ms": ("CPU ms/micro-batch", 1),
    "cpu_share": ("CPU s/s", 4),
    "growth_mb": ("RSS above start, MB", 1),
    "rate": ("records/s", 0),
    "p50_ms": ("p50 ms", 2),
    "p99_ms": ("p99 ms", 2),
    "p999_ms": ("p99.9 ms", 3),
    "blocked_ms": ("loop blocked, CPU ms", 2),
    "blocked_wall_ms": ("loop late, wall ms", 2),
    "rss_mb": ("peak RSS MB", 0),
}
"""Column head and number of decimals of each figure."""


def table(suite: Suite, results: Runs) -> str:
    """Return a table of medians, with the minima and ratios of the suite's own figure."""
    rows = {label: runs for label, runs in results.items() if runs}
    if not rows:
        return f"\n### {suite.title}\n\nno row could be measured\n"
    shown = [name for name in FIGURES if any(name in run for runs in rows.values() for run in runs)]
    shown.remove(suite.figure)
    heads = [f"{FIGURES[suite.figure][0]} (median / min)", f"of {suite.reference}"]
    heads += [FIGURES[name][0] for name in shown]
    lines = [
        f"\n### {suite.title}\n",
        "| " + " | ".join(["client", *heads]) + " |",
        "|---" * (len(heads) + 1) + "|",
    ]
    reference = rows.get(suite.reference)
    for label, runs in rows.items():
        cells = [label, _own(suite, runs), _ratio(suite, runs, reference)]
        cells += [_median(runs, name) for name in shown]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdicts(suite: Suite, results: Runs) -> list[Verdict]:
    """Return the verdict of each bar that has figures."""
    judged = (bar.judge(results) for bar in suite.bars)
    return [verdict for verdict in judged if verdict is not None]


def _own(suite: Suite, runs: Sequence[Mapping[str, Any]]) -> str:
    values = [run[suite.figure] for run in runs if suite.figure in run]
    if not values:
        return "-"
    decimals = FIGURES[suite.figure][1]
    return f"{statistics.median(values):.{decimals}f} / {min(values):.{decimals}f}"


def _ratio(
    suite: Suite, runs: Sequence[Mapping[str, Any]], reference: Sequence[Mapping[str, Any]] | None
) -> str:
    ours = [run[suite.figure] for run in runs if suite.figure in run]
    theirs = [run[suite.figure] for run in reference or () if suite.figure in run]
    if not ours or not theirs or not statistics.median(theirs):
        return "-"
    return f"{statistics.median(ours) / statistics.median(theirs):.3f}"


def _median(runs: Sequence[Mapping[str, Any]], name: str) -> str:
    values = [run[name] for run in runs if name in run]
    return f"{statistics.median(values):,.{FIGURES[name][1]}f}" if values else "-"
