"""The work of every foreign client: records of all kinds, and the expected results."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Final, NamedTuple

__all__ = [
    *("CODECS", "COUNT", "EXPECTED_OFFSETS", "PARTITIONS"),
    *("Entry", "await_true", "entries", "expected"),
]

CODECS: Final = [None, "gzip", "snappy", "lz4", "zstd"]
PARTITIONS: Final = 3
COUNT: Final = 300


class Entry(NamedTuple):
    """A record for a client to send."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp: int


Read = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes]]]
"""Offset, timestamp, key, value, headers: a record as a client has read it."""


def entries() -> list[Entry]:
    """Records for all partitions, including every kind of null and empty."""
    pairs = [(None, b""), (b"", None), (b"key", b"value " * 20), (b"", b"x")]
    headers: list[list[tuple[str, bytes]]] = [[], [("a", b"1"), ("a", b"2"), ("b", b"")]]
    return [
        Entry(index % PARTITIONS, *pairs[index // PARTITIONS % 4], headers[index % 2], 1000 + index)
        for index in range(COUNT)
    ]


def expected() -> dict[int, list[Read]]:
    """The expected records of `entries`, by partition."""
    logs: dict[int, list[Read]] = {index: [] for index in range(PARTITIONS)}
    for entry in entries():
        log = logs[entry.partition]
        log.append((len(log), entry.timestamp, entry.key, entry.value, entry.headers))
    return logs


EXPECTED_OFFSETS: Final = [index // PARTITIONS for index in range(COUNT)]
"""The contents of the acknowledgements of `entries`, in order."""


def await_true(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Poll until the condition holds; fail with its name after `seconds`."""
    deadline = monotonic() + seconds
    while not condition():
        assert monotonic() < deadline, f"not within {seconds:.0f} s: {condition}"
        sleep(0.01)
