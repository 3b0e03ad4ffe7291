"""Interleaved benchmark of aiokafka_lite beside its peers on a real Kafka.

    python -m benchmarks                         every suite, 5 rounds, a broker of its own
    python -m benchmarks consume-iter --rounds 9
    python -m benchmarks --bootstrap host:port   a broker that is already there

Every measurement is a process of its own; a round runs each row of a suite once, in a rotated
order, so that whatever else the machine does falls on all of them; the table shows medians and
minima and the ratio of medians to the reference row *of the same rounds*. Compare ratios within a
table; microseconds move with the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .suites import SUITES, Row, Suite
from .topics import create_topic, load_topic
from .work import Work

PARTITIONS = 6
PATIENCE = 120  # seconds for one measurement
RESULTS = Path(__file__).parent / "results"


@contextlib.contextmanager
def _broker(bootstrap: str | None) -> Iterator[str]:
    if bootstrap:
        yield bootstrap
        return
    from tools.kafka import KafkaCluster

    with KafkaCluster(nodes=1) as cluster:
        print(f"# Apache Kafka {cluster.version} at {cluster.bootstrap_servers}", flush=True)
        yield cluster.bootstrap_servers


def _measure(suite: Suite, row: Row, bootstrap: str, topic: str, scale: float) -> dict[str, Any]:
    options = {**suite.options, **row.options}
    options["records"] = _scaled(options["records"], scale)
    topic = f"{topic}-{_partitions(suite, row)}"
    work = Work(client=row.client, kind=row.kind, bootstrap=bootstrap, topic=topic, **options)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.worker", work.dump()],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done within {PATIENCE} s"}
    if done.returncode != 0:
        return {"error": done.stderr.strip()[-3000:] or "no message"}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _partitions(suite: Suite, row: Row) -> int:
    partitions: int = {**suite.options, **row.options}.get("partitions", PARTITIONS)
    return partitions


def _scaled(records: int, scale: float) -> int:
    return max(1000, int(records * scale))


def run_suite(suite: Suite, bootstrap: str, rounds: int, scale: float) -> dict[str, list[Any]]:
    """Run every row of ``suite`` ``rounds`` times, interleaved; {label: [figures, ...]}."""
    topic = f"bench-{suite.name}-{uuid.uuid4().hex[:8]}"
    for partitions in {_partitions(suite, row) for row in suite.rows}:
        create_topic(bootstrap, f"{topic}-{partitions}", partitions)
    if suite.reads:
        load_topic(
            bootstrap,
            f"{topic}-{PARTITIONS}",
            records=_scaled(suite.options["records"], scale),
            size=suite.options.get("size", 100),
            compression=suite.options.get("compression"),
        )
    results: dict[str, list[Any]] = {row.label: [] for row in suite.rows}
    for turn in range(rounds):
        at = turn % len(suite.rows)
        for row in suite.rows[at:] + suite.rows[:at]:
            figures = _measure(suite, row, bootstrap, topic, scale)
            if "error" in figures:
                print(f"# {suite.name}: {row.label}: {figures['error']}", flush=True)
            else:
                results[row.label].append(figures)
    return results


def report(suite: Suite, results: dict[str, list[Any]]) -> str:
    """A markdown table: CPU microseconds a record (median / min), rate, latencies, ratio."""
    rows = {label: runs for label, runs in results.items() if runs}
    if not rows:
        return f"\n### {suite.title}\n\nno row could be measured\n"
    latencies = any("p50_ms" in runs[0] for runs in rows.values())
    head = ["client", "CPU us/record (median / min)", f"of {suite.reference}", "records/s"]
    head += ["p50 ms", "p99 ms", "p99.9 ms"] if latencies else []
    head += ["peak RSS MB"]

    def median(runs: list[Any], name: str) -> float:
        return statistics.median(run[name] for run in runs)

    reference = rows.get(suite.reference)
    lines = [f"\n### {suite.title}\n", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for label, runs in rows.items():
        cpu = median(runs, "cpu_us")
        ratio = f"{cpu / median(reference, 'cpu_us'):.3f}" if reference else "-"
        cells = [label, f"{cpu:.2f} / {min(run['cpu_us'] for run in runs):.2f}", ratio]
        cells.append(f"{median(runs, 'rate'):,.0f}")
        if latencies:
            cells += [
                f"{median(runs, n):{'.3f' if n == 'p999_ms' else '.2f'}}" if n in runs[0] else "-"
                for n in ("p50_ms", "p99_ms", "p999_ms")
            ]
        cells.append(f"{median(runs, 'rss_mb'):.0f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split("\n")[0]
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="names; all when none is given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every record count")
    parser.add_argument("--bootstrap", help="a running broker, instead of one of our own")
    parser.add_argument("--list", action="store_true", help="name the suites and leave")
    args = parser.parse_args()
    known = {suite.name: suite for suite in SUITES}
    if args.list:
        for suite in SUITES:
            print(f"{suite.name:20} {suite.title}")
        return
    unknown = [name for name in args.suites if name not in known]
    if unknown:
        parser.error(f"unknown suite {unknown[0]!r}; there are: {', '.join(known)}")
    chosen = [known[name] for name in args.suites] or list(SUITES)
    print(
        f"# {platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores"
    )
    RESULTS.mkdir(exist_ok=True)
    with _broker(args.bootstrap) as bootstrap:
        for suite in chosen:
            results = run_suite(suite, bootstrap, args.rounds, args.scale)
            (RESULTS / f"{suite.name}.json").write_text(json.dumps(results, indent=1))
            print(report(suite, results), flush=True)


if __name__ == "__main__":
    main()
