"""Record sets written by the Java client, and the Java client as a reader of this package's sets.

    python -m tests.unit.record.java_judge      rewrite golden_sets.txt from the Java client

With `golden_sets.txt`, a machine without Java can check, too: one set per line, as `magic codec
base_offset log_append_time hex`, each of the records in `RECORDS`.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.kafka.jars import QUICK
from tools.oracle.java import java
from tools.protocol_gen.jars import OLDEST, clients_jar, maven_copy

HERE = Path(__file__).parent
GOLDEN = HERE / "golden_sets.txt"

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

T0 = 1_700_000_000_000
RECORDS: list[Row] = [
    (T0, b"key", b"value", ()),
    (T0 - 1000, None, b"", ()),
    (T0 + 70_000, b"", None, ()),
    (T0 + 5, None, None, ()),
    (T0 + 6, b"k" * 70, b"text " * 300, ()),
]
WITH_HEADERS: list[Row] = [
    (timestamp, key, value, (("h", None), ("ü", b""), ("h", b"\x00\xff" * i)))
    for i, (timestamp, key, value, _) in enumerate(RECORDS)
]


def class_path() -> str:
    """The last release that writes formats v0 and v1, and its compression libraries.

    Raises:
        JarsUnavailable: They are not cached, and Maven cannot download them.
    """
    jars = [
        clients_jar(OLDEST),
        maven_copy("org.slf4j", "slf4j-api", "1.7.36"),
        maven_copy("org.slf4j", "slf4j-nop", "1.7.36"),
        maven_copy("org.lz4", "lz4-java", "1.8.0"),
        maven_copy("org.xerial.snappy", "snappy-java", "1.1.10.5"),
        maven_copy("com.github.luben", "zstd-jni", "1.5.6-4"),
    ]
    return os.pathsep.join(str(jar) for jar in jars)


def ask(questions: Sequence[str]) -> list[str]:
    """Send all lines to one run of RecordJudge.java."""
    run = subprocess.run(
        [java(), *QUICK, "-Xmx512m", "-cp", class_path(), str(HERE / "RecordJudge.java")],
        input="\n".join(questions) + "\n",
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    answers = run.stdout.splitlines()
    if run.returncode or len(answers) != len(questions):
        raise RuntimeError(f"{len(answers)} answers to {len(questions)}:\n{run.stderr[-2000:]}")
    return answers


def as_text(record: Row) -> str:
    timestamp, key, value, headers = record
    fields = [str(timestamp), hexed(key), hexed(value)]
    for name, of_header in headers:
        fields += [name.encode().hex(), hexed(of_header)]
    return ",".join(fields)


def hexed(data: bytes | None) -> str:
    return "-" if data is None else data.hex()


def shapes() -> list[tuple[int, int, int, int]]:
    """(magic, codec, base offset, log append time) of every kind of set."""
    return [
        (magic, codec, 40, stamp)
        for magic in (0, 1, 2)
        for codec in range(5 if magic == 2 else 4)
        for stamp in ((-1,) if magic == 0 else (-1, T0 + 9))
    ]


def records_of(magic: int) -> list[Row]:
    return WITH_HEADERS if magic == 2 else RECORDS


def write_golden() -> None:
    questions = [
        f"write {magic} {codec} {base} {stamp} {';'.join(map(as_text, records_of(magic)))}"
        for magic, codec, base, stamp in shapes()
    ]
    lines = []
    for shape, answer in zip(shapes(), ask(questions), strict=True):
        if answer.startswith("!"):
            raise SystemExit(f"{shape}: {answer}")
        lines.append(f"{' '.join(map(str, shape))} {answer}\n")
    GOLDEN.write_text("".join(lines))


if __name__ == "__main__":
    write_golden()
