"""Prints the saved results of all suites as a Markdown page, with every bar: met or missed.

    python -m benchmarks.page > benchmarks/RESULTS.md

The page contains the results in benchmarks/results, where each run of `python -m benchmarks` saves
those of its suites. It is therefore that of one sitting only if all suites ran in it.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import UTC, datetime
from typing import Any

from tools.kafka.releases import NEWEST

from .__main__ import RESULTS
from .report import FIGURES, table, verdicts
from .suite import Suite
from .suites import GROUPS


def page() -> str:
    """Return the page.

    Raises:
        SystemExit: There are no results.
    """
    found = {
        group: [(suite, results) for suite in suites if (results := _saved(suite)) is not None]
        for group, suites in GROUPS.items()
    }
    measured = [each for suites in found.values() for each in suites]
    if not measured:
        raise SystemExit("no results in benchmarks/results: run python -m benchmarks first")
    lines = [
        "# Results of the benchmarks",
        "",
        f"{platform.python_implementation()} {platform.python_version()}, Apache Kafka {NEWEST},"
        f" {os.cpu_count()} cores; {_days()}. [Method](README.md#method).",
        "",
        "## Bars",
        "",
        *_bars(measured),
    ]
    for group, suites in found.items():
        lines += ["", f"## {group.capitalize()}"]
        lines += [table(suite, results) for suite, results in suites]
    return "\n".join(lines)


def _saved(suite: Suite) -> dict[str, list[Any]] | None:
    path = RESULTS / f"{suite.name}.json"
    if not path.exists():
        return None
    results: dict[str, list[Any]] = json.loads(path.read_text())
    return results


def _days() -> str:
    """Return the day of the results, or the first and the last one."""
    times = sorted(path.stat().st_mtime for path in RESULTS.glob("*.json"))
    days = [str(datetime.fromtimestamp(each, UTC).date()) for each in (times[0], times[-1])]
    return " to ".join(dict.fromkeys(days))


def _bars(measured: list[tuple[Suite, dict[str, list[Any]]]]) -> list[str]:
    judged = [
        (suite, verdict) for suite, results in measured for verdict in verdicts(suite, results)
    ]
    missed = sum(not verdict.met for _, verdict in judged)
    return [
        f"{len(judged) - missed} of {len(judged)} met.",
        "",
        "| suite | row | figure | bar | measured | |",
        "|---|---|---|---|---|---|",
        *(
            f"| {suite.name} | {each.row} | {FIGURES[each.figure][0]} | {each.wanted}"
            f" | {each.measured} | {'met' if each.met else '**missed**'} |"
            for suite, each in judged
        ),
    ]


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")
