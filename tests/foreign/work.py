"""What every foreign client is given to do: records of all kinds, and what must come back."""

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
    """A record as a client is to send it."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp: int


Read = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes]]]
"""Offset, timestamp, key, value, headers: a record as a client has read it."""


def entries() -> list[Entry]:
    """Records over all partitions, every kind of null and empty among them."""
    pairs = [(None, b""), (b"", None), (b"key", b"value " * 20), (b"", b"x")]
    headers: list[list[tuple[str, bytes]]] = [[], [("a", b"1"), ("a", b"2"), ("b", b"")]]
    return [
        Entry(index % PARTITIONS, *pairs[index // PARTITIONS % 4], headers[index % 2], 1000 + index)
        for index in range(COUNT)
    ]


def expected() -> dict[int, list[Read]]:
    """By partition, what `entries` must be read as."""
    logs: dict[int, list[Read]] = {index: [] for index in range(PARTITIONS)}
    for entry in entries():
        log = logs[entry.partition]
        log.append((len(log), entry.timestamp, entry.key, entry.value, entry.headers))
    return logs


EXPECTED_OFFSETS: Final = [index // PARTITIONS for index in range(COUNT)]
"""What the acknowledgements of `entries` tell, in order."""


def await_true(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for what happens elsewhere; polls, and fails with its name after `seconds`."""
    deadline = monotonic() + seconds
    while not condition():
        assert monotonic() < deadline, f"not within {seconds:.0f} s: {condition}"
        sleep(0.01)
