"""Benchmarks of aiokafka_lite and its peers with a real Kafka, in interleaved rounds.

    python -m benchmarks                         every suite, 5 rounds, with its own brokers
    python -m benchmarks consumer --rounds 3     all suites of the consumer
    python -m benchmarks consume-iter --rounds 9
    python -m benchmarks --bootstrap host:port   use a running broker

Each measurement runs in its own process. A round runs every row of a suite once, in rotated order,
so that other load on the machine affects all rows. The tables show medians, minima, and the ratio
of the medians to the reference row of the same rounds. Microseconds vary with the machine: compare
ratios within one table. The last lines of the output list the bars: each target, the measured
value, and whether it was met.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .report import table, verdicts
from .spark_suites import SPARK_SUITES, run_session
from .suite import Row, Suite
from .suites import GROUPS, SUITES
from .topics import create_topic, delete_topics, load_topic
from .work import Work

PARTITIONS = 6
PATIENCE = 120  # timeout of one measurement, in seconds
CROWD = 1_000
"""Number of partitions at which a topic slows its broker for all later measurements."""
RESULTS = Path(__file__).parent / "results"


@contextlib.contextmanager
def _broker(bootstrap: str | None) -> Iterator[str]:
    if bootstrap:
        yield bootstrap
        return
    from tools.kafka import KafkaCluster

    with KafkaCluster(nodes=1, quick=False) as cluster:
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
        return {"error": f"did not finish within {PATIENCE} s"}
    if done.returncode != 0:
        return {"error": done.stderr.strip()[-3000:] or "no error message"}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _partitions(suite: Suite, row: Row) -> int:
    partitions: int = {**suite.options, **row.options}.get("partitions", PARTITIONS)
    return partitions


def _is_crowded(suite: Suite) -> bool:
    """True if the suite has a topic that slows the broker."""
    return any(_partitions(suite, row) >= CROWD for row in suite.rows)


def _scaled(records: int, scale: float) -> int:
    return max(1000, int(records * scale))


class Topics:
    """Creates the topics of the suites.

    Topics that are only read are filled once and shared.

    Args:
        bootstrap: Address of the broker.
        scale: Factor for every record count.
    """

    def __init__(self, bootstrap: str, scale: float) -> None:
        self._bootstrap = bootstrap
        self._scale = scale
        self._filled: dict[tuple[object, ...], str] = {}
        self._made: list[str] = []

    def delete(self) -> None:
        """Delete all created topics from the broker."""
        delete_topics(self._bootstrap, self._made)

    def _make(self, topic: str, partitions: int) -> None:
        self._made.append(topic)
        create_topic(self._bootstrap, topic, partitions)

    def of(self, suite: Suite) -> str:
        """Create a suite's topics if needed; return their name without the partition count."""
        name = f"bench-{suite.name}-{uuid.uuid4().hex[:8]}"
        if not suite.reads:
            for partitions in {_partitions(suite, row) for row in suite.rows}:
                self._make(f"{name}-{partitions}", partitions)
            return name
        options = suite.options
        partitions = options.get("partitions", PARTITIONS)
        records = _scaled(options.get("loaded", options["records"]), self._scale)
        size, compression = options.get("size", 100), options.get("compression")
        used = options.get("hot", 0) or partitions
        key = (partitions, records, size, compression, used)
        if key not in self._filled:
            self._make(f"{name}-{partitions}", partitions)
            load_topic(
                self._bootstrap,
                f"{name}-{partitions}",
                records=records,
                size=size,
                compression=compression,
                partitions=used,
            )
            self._filled[key] = name
        return self._filled[key]


def run_suite(
    suite: Suite, bootstrap: str, topic: str, rounds: int, scale: float
) -> dict[str, list[Any]]:
    """Run the rows of `suite` in interleaved rounds; return {label: [figures, ...]}."""
    results: dict[str, list[Any]] = {row.label: [] for row in suite.rows}
    for turn in range(min(rounds, suite.most_rounds)):
        at = turn % len(suite.rows)
        for row in suite.rows[at:] + suite.rows[:at]:
            figures = _measure(suite, row, bootstrap, topic, scale)
            if "error" in figures:
                print(f"# {suite.name}: {row.label}: {figures['error']}", flush=True)
            else:
                results[row.label].append(figures)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"names, or {', '.join(GROUPS)} (default: all)"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="factor for every record count")
    parser.add_argument("--bootstrap", help="use this running broker instead of starting one")
    parser.add_argument("--list", action="store_true", help="list the suites and exit")
    args = parser.parse_args()
    known = {suite.name: suite for suite in SUITES}
    if args.list:
        for suite in SUITES:
            print(f"{suite.name:20} {suite.title}")
        return
    unknown = [name for name in args.suites if name not in known and name not in GROUPS]
    if unknown:
        parser.error(f"unknown suite {unknown[0]!r}; choose from: {', '.join([*GROUPS, *known])}")
    chosen = [
        suite for name in args.suites for suite in GROUPS.get(name) or (known[name],)
    ] or list(SUITES)
    print(
        f"# {platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores"
    )
    RESULTS.mkdir(exist_ok=True)
    judged: list[str] = []
    # A broker with 10,000 partitions occasionally pauses for 0.7 s, even in later suites.
    for _, suites in itertools.groupby(chosen, _is_crowded):
        with _broker(args.bootstrap) as bootstrap:
            topics = Topics(bootstrap, args.scale)
            try:
                for suite in suites:
                    run = run_session if suite in SPARK_SUITES else run_suite
                    results = run(suite, bootstrap, topics.of(suite), args.rounds, args.scale)
                    (RESULTS / f"{suite.name}.json").write_text(json.dumps(results, indent=1))
                    print(table(suite, results), flush=True)
                    judged += [f"{suite.name}: {each}" for each in verdicts(suite, results)]
            finally:
                topics.delete()
    print("\n### Bars\n", *judged, sep="\n")


if __name__ == "__main__":
    main()
