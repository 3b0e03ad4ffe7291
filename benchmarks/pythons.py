"""Compares the CPU per record with several versions of Python, in interleaved rounds.

    python -m benchmarks.pythons python3.11 python3.12 python3.13

Each argument is an interpreter that can import `aiokafka_lite`, such as that of the venv that
`make wheel-test PYTHON=python3.13` creates. The first interpreter is the reference. Only the rows
of aiokafka_lite run, because other clients change between versions, too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Final

from tools.kafka import KafkaCluster

from .__main__ import PATIENCE, Topics
from .suite import OURS
from .suites import SUITES
from .work import Work

NAMES: Final = (
    "produce-16k",
    "produce-128k",
    "produce-lz4",
    "tasks-1000",
    "idle",
    "transaction-1000",
    "consume-iter",
    "consume-lists",
    "consume-lists-lz4",
    "steady",
)
ROOT: Final = Path(__file__).parents[1]


def _packages(python: str) -> str:
    """Return the folder of installed packages, which precedes this clone on the path."""
    asked = "import sysconfig; print(sysconfig.get_path('platlib'))"
    return subprocess.check_output([python, "-P", "-c", asked], text=True).strip()


def _measure(python: str, path: str, work: Work) -> float:
    done = subprocess.run(
        [python, "-P", "-m", "benchmarks.worker", work.dump()],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": path},
    )
    figure: float = json.loads(done.stdout.splitlines()[-1])["cpu_us"]
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--suites", nargs="+", default=NAMES, metavar="SUITE")
    args = parser.parse_args()
    suites = {suite.name: suite for suite in SUITES}
    paths = {python: f"{_packages(python)}{os.pathsep}{ROOT}" for python in args.pythons}
    print("| CPU in us per record | " + " | ".join(args.pythons) + " |")
    print("|---" * (len(args.pythons) + 1) + "|")
    with KafkaCluster(nodes=1, quick=False) as cluster:
        topics = Topics(cluster.bootstrap_servers, 1.0)
        for suite in (suites[name] for name in args.suites):
            row = next(row for row in suite.rows if row.label == OURS)
            options = {**suite.options, **row.options}
            work = Work(
                client=row.client,
                kind=row.kind,
                bootstrap=cluster.bootstrap_servers,
                topic=f"{topics.of(suite)}-{options.get('partitions', 6)}",
                **options,
            )
            figures: dict[str, list[float]] = defaultdict(list)
            for turn in range(args.rounds):
                at = turn % len(args.pythons)
                for python in args.pythons[at:] + args.pythons[:at]:
                    figures[python].append(_measure(python, paths[python], work))
            medians = [statistics.median(figures[python]) for python in args.pythons]
            cells = [f"{each:.2f} ({each / medians[0]:.2f})" for each in medians]
            print(f"| {suite.name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
