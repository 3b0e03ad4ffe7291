"""Reads many hostile record sets with both builds of the record codec.

    python -m tests.fuzz.records --sets 1000000 --seed 1

Sets begin as bytes that the Java client wrote (golden_sets.txt), are damaged in the ways of
`tests.fuzz.protocol.DAMAGES`, half of them with a corrected CRC, and are read in steps of any size,
as records and as columns. Both builds must deliver the same records, stop at the same position and
raise errors of the same class, one of the documented ones; anything else fails the run, as does
memory that grows with what the bytes claim. What was tried is printed.
"""

from __future__ import annotations

import argparse
import importlib
import random
import resource
import struct
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from aiokafka_lite.errors import (
    CorruptRecordException,
    KafkaError,
    RecordTooLargeError,
    UnsupportedCodecError,
)
from aiokafka_lite.record.header import HEADER_SIZE, LENGTH_AT, LENGTH_END, MAGIC_AT, write_crc
from tests.fuzz.protocol import DAMAGES

CORPUS = Path(__file__).parents[1] / "unit" / "record" / "golden_sets.txt"
DOCUMENTED = (CorruptRecordException, RecordTooLargeError, UnsupportedCodecError)
LIMIT = 1_000_000
"""Bytes that one batch may decompress to here."""
GROWTH_LIMIT = 200 * 1024
"""KiB that the whole run may add to the process."""
MOST_RECORDS = 20_000
"""Records taken from one set: a damaged count may be true."""

Builds = list[tuple[Any, Any]]


def builds() -> Builds:
    """(RecordSet, read_columns) of the native build, if there is one, and of the pure twins."""
    out = []
    for kind in ("native", "python"):
        try:
            record_set = importlib.import_module(f"aiokafka_lite.record._record_set_{kind}")
            columns = importlib.import_module(f"aiokafka_lite.record.columnar._columns_{kind}")
        except ModuleNotFoundError:
            print(f"  the {kind} build is not there")
            continue
        out.append((record_set.RecordSet, columns.read_columns))
    return out


def with_right_crc(data: bytearray) -> bytearray:
    """The same bytes, with a corrected CRC in every v2 batch that can be found."""
    at = 0
    while len(data) - at >= HEADER_SIZE:
        size = struct.unpack_from(">i", data, at + LENGTH_AT)[0] + LENGTH_END
        if not HEADER_SIZE <= size <= len(data) - at:
            break
        if data[at + MAGIC_AT] == 2:
            write_crc(data, at, size)
        at += size
    return data


def outcome(build: tuple[Any, Any], data: bytes, options: dict[str, Any], step: int) -> Any:
    """The result of reading to the end: records, how it ended, the position."""
    record_set = build[0](data, "t", 0, **options)
    seen: list[Any] = []
    try:
        while len(seen) < MOST_RECORDS and (records := record_set.read(step)):
            seen += [
                (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers, r.checksum)
                for r in records
            ]
        end: Any = "read"
    except KafkaError as error:
        if not isinstance(error, DOCUMENTED):
            raise
        end = type(error).__name__
    return seen, end, record_set.next_offset, record_set.exhausted, record_set.only_partial


def rows(build: tuple[Any, Any], data: bytes, options: dict[str, Any], step: int) -> Any:
    """The same by columns: offsets and lengths, how it ended, the position."""
    record_set = build[0](data, "t", 0, **options)
    seen: list[int] = []
    lengths = bytearray()
    try:
        while len(seen) < MOST_RECORDS and (columns := build[1](record_set, step)):
            seen += memoryview(columns.offsets).cast("q")
            lengths += b"".join(
                struct.pack("=ii", *pair)
                for pair in zip(
                    memoryview(columns.key_lengths).cast("i"),
                    memoryview(columns.value_lengths).cast("i"),
                    strict=True,
                )
            )
        end = "read"
    except KafkaError as error:
        if not isinstance(error, DOCUMENTED):
            raise
        end = type(error).__name__
    return seen, lengths, end, record_set.next_offset


def run(sets: int, seed: int) -> int:
    chance = random.Random(seed)
    both = builds()
    corpus = [bytes.fromhex(line.split()[-1]) for line in CORPUS.read_text().splitlines()]
    tried: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    slowest, total = 0.0, 0
    started = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(sets):
        damage = chance.choice(DAMAGES)
        raw = damage(
            bytearray(b"".join(chance.choices(corpus, k=chance.choice((1, 1, 3))))), chance
        )
        data = bytes(with_right_crc(raw) if chance.random() < 0.5 else raw)
        options = {
            "offset": chance.choice((0, 0, 41, 43, 1000)),
            "check_crcs": chance.random() < 0.7,
            "aborted": [(-1, 0)] * chance.randrange(2),
            "decompressed_limit": LIMIT,
        }
        step = chance.choice((1, 2, 3, 1000))
        way = chance.choice((outcome, outcome, rows))
        begun = time.process_time()
        try:
            first, *others = (way(build, data, options, step) for build in both)
            if any(other != first for other in others):
                raise AssertionError(f"the builds differ: {first}\n{others}")
        except Exception:
            traceback.print_exc()
            print(f"FAILED: set {number} of seed {seed}: {damage.__name__}, {options}, {step}")
            print(f"bytes: {data.hex()}")
            return 1
        slowest = max(slowest, time.process_time() - begun)
        total += len(data)
        tried[damage.__name__] += 1
        ended[first[-2] if way is rows else first[1]] += 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    seconds = time.monotonic() - started
    print(f"records fuzz: seed {seed}, {sets} sets, {total} bytes, {seconds:.0f} s")
    print("  damages: " + ", ".join(f"{name} {count}" for name, count in sorted(tried.items())))
    print("  ended: " + ", ".join(f"{name} {count}" for name, count in sorted(ended.items())))
    print(f"  slowest set {slowest * 1e3:.1f} ms of CPU, memory grew by {grown} KiB")
    if grown > GROWTH_LIMIT:
        print(f"FAILED: memory grew by {grown} KiB")
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.records")
    parser.add_argument("--sets", "--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, printed")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    return run(options.sets, seed)


if __name__ == "__main__":
    sys.exit(main())
