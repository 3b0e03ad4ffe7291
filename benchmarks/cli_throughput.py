"""Compares the CPU per record of `produce` and `consume` with kcat's: same broker, same records.

    python -m benchmarks.cli_throughput --records 1000000

Requires kcat (Debian: `apt-get install kcat`). The commands run in turns, several times. The
minimum CPU time counts, start-up included. The output goes to /dev/null, or to a pipe with --pipe.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from tools.kafka import RealKafka, open_kafka

SIZE = 100  # bytes per value


def main() -> int:
    """Run both commands of both programs, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pipe", action="store_true", help="consume into a pipe, not /dev/null")
    args = parser.parse_args()
    if shutil.which("kcat") is None:
        print("kcat is not installed", file=sys.stderr)
        return 2
    with open_kafka() as kafka, tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines"
        with lines.open("wb") as file:
            for number in range(args.records):
                file.write(b"%0*d\n" % (SIZE, number))
        compare(kafka, lines, args.records, args.runs, args.pipe)
    return 0


def compare(kafka: RealKafka, lines: Path, records: int, runs: int, pipe: bool) -> None:
    """Print the CPU microseconds per record of producing and consuming, and their ratios."""
    address = kafka.bootstrap_servers
    ours = [sys.executable, "-m", "aiokafka_lite"]
    topic = f"cli-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, 1)
    commands = {
        "produce": (
            ["kcat", "-P", "-b", address, "-t", "TOPIC", "-l", str(lines)],
            [*ours, "produce", "TOPIC", str(lines), "-b", address],
        ),
        "consume": (
            ["kcat", "-C", "-q", "-e", "-b", address, "-t", topic, "-f", "%s\\n"],
            [*ours, "consume", topic, "-e", "-b", address, "-f", r"%v\n"],
        ),
    }
    seconds([*ours, "produce", topic, str(lines), "-b", address], pipe=False)
    print(f"{records:,} records of {SIZE} B; CPU us per record")
    for name, (theirs, mine) in commands.items():
        best = [float("inf"), float("inf")]
        for _ in range(runs):
            for place, command in enumerate((theirs, mine)):
                fresh = f"cli-{uuid.uuid4().hex[:8]}"
                if "TOPIC" in command:
                    kafka.create_topic(fresh, 1)
                filled = [fresh if each == "TOPIC" else each for each in command]
                best[place] = min(best[place], seconds(filled, pipe=pipe and name == "consume"))
        kcat, lite = (each / records * 1e6 for each in best)
        print(f"{name}: kcat {kcat:.3f}, aiokafka-lite {lite:.3f}, ratio {lite / kcat:.2f}")


def seconds(command: list[str], *, pipe: bool) -> float:
    """Run a command, which must succeed, and return its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.PIPE if pipe else subprocess.DEVNULL
    # As in an installation, the first run writes the bytecode, and later runs read it.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, stdout=out, env=environment)
    if process.stdout is not None:
        while os.read(process.stdout.fileno(), 1 << 20):
            pass
        process.stdout.close()
    if process.wait():
        raise SystemExit(f"{' '.join(command)} exited with status {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())
