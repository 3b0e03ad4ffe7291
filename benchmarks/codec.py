"""Compares the record codec with aiokafka's: CPU ns per record in batches of 1,000, with CRCs.

    python -m benchmarks.codec                   both builds, 15 rounds
    python -m benchmarks.codec --rounds 31

One process measures native code and another pure Python, because aiokafka chooses its build at
import. A round runs every row once, so that other load on the machine affects all rows. The table
shows medians and, in brackets, the ratio of aiokafka's time to ours. The exit status is 1 if a
target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

RECORDS = 1000
STAMPS = [1_700_000_000_000 + i for i in range(RECORDS)]  # created in advance: not codec work
Rows = dict[str, dict[str, Callable[[], object]]]

SHAPES: dict[str, tuple[bytes | None, bytes, tuple[tuple[str, bytes], ...]]] = {
    "100 B": (None, b"v" * 100, ()),
    "100 B + 16 B key": (b"k" * 16, b"v" * 100, ()),
    "1 KiB": (None, b"v" * 1024, ()),
    "100 B + 2 headers": (None, b"v" * 100, (("trace", b"0123456789abcdef"), ("kind", b"order"))),
}
# (build, shape, row): ns per record
TARGETS = {
    ("native", "100 B", "encode"): 75.0,
    ("native", "100 B", "decode to ConsumerRecord"): 60.0,
    ("native", "100 B", "scan to columns"): 45.0,
}


def rows_of(shape: str) -> Rows:
    """Return the work on one batch by row and client, with the builds that this process imports."""
    from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
    from aiokafka.structs import ConsumerRecord as TheirRecord

    from aiokafka_lite.record.batch import BatchBuilder
    from aiokafka_lite.record.columnar.columns import read_columns
    from aiokafka_lite.record.record_set import RecordSet

    key, value, headers = SHAPES[shape]
    limit = RECORDS * (len(value) + 120) + 61
    pooled = bytearray(limit)
    their_headers = list(headers)

    def encode() -> memoryview | bytearray | bytes:
        builder = BatchBuilder(limit, pooled)
        append = builder.append
        for stamp in STAMPS:
            append(stamp, key, value, headers)
        return builder.seal()

    def their_encode() -> bytearray:
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, limit)
        append = builder.append
        for i, stamp in enumerate(STAMPS):
            append(i, stamp, key, value, their_headers)
        return builder.build()

    data = bytes(encode())
    if data != bytes(their_encode()):
        raise SystemExit(f"{shape}: the two codecs wrote different bytes")

    def decode() -> object:
        return RecordSet(data, "topic", 0, 0).read(RECORDS)

    def scan() -> object:
        return read_columns(RecordSet(data, "topic", 0, 0), RECORDS)

    def their_decode() -> object:
        batch = DefaultRecordBatch(bytearray(data))
        if not batch.validate_crc():
            raise SystemExit("aiokafka rejected the CRC")
        return list(batch)

    def their_consumer_records() -> object:
        batch = DefaultRecordBatch(bytearray(data))
        batch.validate_crc()
        return [
            TheirRecord(
                "topic",
                0,
                r.offset,
                r.timestamp,
                r.timestamp_type,
                r.key,
                r.value,
                r.checksum,
                len(r.key) if r.key is not None else -1,
                len(r.value) if r.value is not None else -1,
                tuple(r.headers),
            )
            for r in batch
        ]

    return {
        "encode": {"ours": encode, "aiokafka": their_encode},
        "decode to ConsumerRecord": {"ours": decode, "aiokafka": their_consumer_records},
        "scan to columns": {"ours": scan, "aiokafka": their_decode},
    }


def measure(rounds: int, repeats: int) -> dict[str, Any]:
    """Return the median ns per record of interleaved rounds, by shape, row and client."""
    report: dict[str, Any] = {}
    for shape in SHAPES:
        rows = rows_of(shape)
        works = [(row, who, work) for row, by in rows.items() for who, work in by.items()]
        times: dict[tuple[str, str], list[float]] = {(row, who): [] for row, who, _ in works}
        for turn in range(rounds):
            start = turn % len(works)
            for row, who, work in works[start:] + works[:start]:
                work()  # fills the caches with what this row uses
                began = time.process_time_ns()
                for _ in range(repeats):
                    work()
                spent = time.process_time_ns() - began
                times[row, who].append(spent / (repeats * RECORDS))
        report[shape] = {
            row: {who: statistics.median(times[row, who]) for who in by} for row, by in rows.items()
        }
    return report


def child(build: str, rounds: int) -> dict[str, Any]:
    """Measure one build in its own process."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AIOKAFKA_")}
    if build == "native":
        environment["AIOKAFKA_LITE_REQUIRE_NATIVE"] = "1"
    else:
        environment.update(AIOKAFKA_LITE_PURE="1", AIOKAFKA_NO_EXTENSIONS="1")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.codec", "--child", build, "--rounds", str(rounds)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{build} build: {done.stderr.strip() or done.stdout.strip()}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def show(build: str, report: dict[str, Any]) -> list[str]:
    """Print the table of one build; return the targets that it missed."""
    missed = []
    print(f"\n{build}: ns/record{'':21}{'ours':>10}{'aiokafka':>18}   target")
    for shape, rows in report.items():
        print(f"  {shape}")
        for row, figures in rows.items():
            ours, theirs = figures["ours"], figures["aiokafka"]
            target = TARGETS.get((build, shape, row))
            if build == "twin" and row != "scan to columns":
                target = theirs  # must not be slower than aiokafka's pure Python
            verdict = ""
            if target is not None:
                verdict = f"<= {target:.0f} {'ok' if ours <= target else 'MISSED'}"
                if ours > target:
                    missed.append(f"{build}, {shape}, {row}: {ours:.0f} > {target:.0f}")
            print(f"    {row:32}{ours:10.1f}{theirs:10.1f} ({theirs / ours:4.1f}x)   {verdict}")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codec", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--child", choices=["native", "twin"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        repeats = 20 if options.child == "native" else 1
        print(json.dumps(measure(options.rounds, repeats)))
        return 0
    missed = show("native", child("native", options.rounds))
    missed += show("twin", child("twin", max(3, options.rounds // 5)))
    print("\nIn the row 'scan to columns', aiokafka decodes to its own record objects.")
    print("Its pure-Python build also computes the CRC in Python.")
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
