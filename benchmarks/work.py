"""Describes the work of a worker process, and measures it.

The main measure is the CPU of the client's process (user and system, all threads). The broker runs
on the same cores, so wall-clock time depends more on the broker than on the client.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Work:
    """One measurement: the client, its work, and the number of records.

    Attributes:
        kind: Name of a function or coroutine function in the client's module, such as `produce`.
        size: Bytes per value.
        batch_size: Maximum bytes of a batch.
        partitions: Number of partitions of the topic.
        hot: Number of partitions that receive the records in turn; 0 for the partitioner's choice.
        pace: Records per second; 0 for no limit.
        loaded: Number of records in the topic before the measurement.
        transaction: Number of records per transaction.
    """

    client: str
    kind: str
    bootstrap: str
    topic: str
    records: int
    size: int = 100
    batch_size: int = 16384
    linger_ms: int = 5
    compression: str | None = None
    tasks: int = 1
    partitions: int = 6
    hot: int = 0
    pace: int = 0
    loaded: int = 0
    transaction: int = 0
    loop: str = "asyncio"
    warmup: int = 10_000

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> Work:
        return cls(**json.loads(text))


def values(size: int, count: int = 1000) -> list[bytes]:
    """Return `count` different JSON-like values of exactly `size` bytes."""
    made = []
    for i in range(count):
        head = (
            f'{{"id": {i * 7919 % 100003}, "user": "user-{i}", "sum": {i * 31 % 9973}.25, "tag": "'
        )
        letters = (chr(97 + (i * 7 + j * j) % 26) for j in range(max(0, size - len(head) - 2)))
        made.append((head + "".join(letters) + '"}').encode()[:size].ljust(size))
    return made


class Meter:
    """Measures CPU, wall-clock time and latencies.

    Call `start` after the warm-up, and `stop` with the number of records. In between, the caller
    can append the latency of each record to `latencies`, in seconds.
    """

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self._usage: resource.struct_rusage | None = None
        self._began = 0.0

    def start(self) -> None:
        self.latencies.clear()
        self._usage = resource.getrusage(resource.RUSAGE_SELF)
        self._began = time.perf_counter()

    def share(self) -> float:
        """Return the CPU seconds per second since `start`."""
        user, system = self._spent()
        return (user + system) / (time.perf_counter() - self._began)

    def stop(self, records: int) -> dict[str, Any]:
        ended = time.perf_counter()
        user, system = self._spent()
        result: dict[str, Any] = {
            "records": records,
            "wall": ended - self._began,
            "cpu_us": (user + system) / records * 1e6,
            "sys_us": system / records * 1e6,
            "rate": records / (ended - self._began),
            "rss_mb": rss_mb("VmHWM"),
        }
        if self.latencies:
            ordered = sorted(self.latencies)
            for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999)):
                result[name] = percentile(ordered, share) * 1e3
        return result

    def _spent(self) -> tuple[float, float]:
        """Return the user and system seconds since `start`."""
        now = resource.getrusage(resource.RUSAGE_SELF)
        if self._usage is None:
            raise RuntimeError("the meter was not started")
        return now.ru_utime - self._usage.ru_utime, now.ru_stime - self._usage.ru_stime


def rss_mb(which: str = "VmRSS") -> float:
    """Return the current memory of this process in MiB, or its peak with "VmHWM".

    ru_maxrss is only a fallback, because it starts at the peak of the process that forked this one.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(which + ":"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def forget_peak() -> None:
    """Reset the peak memory of this process to its current memory."""
    Path("/proc/self/clear_refs").write_text("5")


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share (0 to 1) of the sorted, non-empty `ordered` lies."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
