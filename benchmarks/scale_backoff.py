"""Simulates when 50,000 connections retry during an outage, and when they are restored.

    python -m benchmarks.scale_backoff
    python -m benchmarks.scale_backoff --connections 1000 --outage 300

All connections are lost at once, and every attempt is refused until the outage ends. The package
computes the delays (`_backoff.Backoff`, as `cluster.broker` uses it); the time is virtual. A second
run without jitter shows its effect. Java's `ExponentialBackoff` (KIP-144, KIP-580) uses the same
formula.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable

from aiokafka_lite._backoff import Backoff

BASE, MAXIMUM = 0.05, 1.0  # seconds; reconnect_backoff_ms, reconnect_backoff_max_ms
WINDOW = 0.1  # seconds

Delay = Callable[[int, random.Random], float]


def ours(failures: int, chance: random.Random) -> float:
    return Backoff(BASE, MAXIMUM).delay(failures, chance.random)


def without_jitter(failures: int, chance: random.Random) -> float:
    return Backoff(BASE, MAXIMUM, jitter=0.0).delay(failures, chance.random)


def attempts(delay: Delay, connections: int, outage: float, seed: int) -> tuple[Counter[int], int]:
    """Return the attempts in each window until all connections are restored, and their total."""
    chance = random.Random(seed)
    windows: Counter[int] = Counter()
    for _ in range(connections):
        now, failures = 0.0, 0
        while True:
            windows[int(now / WINDOW)] += 1
            if now >= outage:
                break
            failures += 1
            now += delay(failures, chance)
    return windows, windows.total()


def report(name: str, delay: Delay, connections: int, outage: float, seed: int) -> None:
    windows, total = attempts(delay, connections, outage, seed)
    begin = int(outage / WINDOW)
    back = [windows[window] for window in range(begin, max(windows) + 1)]
    print(f"{name}: {total / connections:.1f} attempts per connection")
    for first, last in ((0, 1), (1, 5), (5, 20), (20, outage)):
        inside = [windows[n] for n in range(int(first / WINDOW), int(last / WINDOW))]
        if inside:
            most = max(inside) / connections
            print(
                f"  {first:5.0f} to {last:3.0f} s: "
                f"at most {most:6.1%} of the connections in {WINDOW} s"
            )
    shares = " ".join(f"{count / connections:.0%}" for count in back)
    print(f"  restored after the outage, in windows of {WINDOW} s: {shares}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    arguments.add_argument("--connections", type=int, default=50_000)
    arguments.add_argument("--outage", type=float, default=60.0, help="seconds")
    arguments.add_argument("--seed", type=int, default=7)
    given = arguments.parse_args()
    for name, delay in (("jitter of 20 %", ours), ("no jitter", without_jitter)):
        report(name, delay, given.connections, given.outage, given.seed)


if __name__ == "__main__":
    main()
