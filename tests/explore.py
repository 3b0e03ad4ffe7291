"""Random walks and Hypothesis's tests from fresh seeds, round after round.

    python -m tests.explore --minutes 5
    python -m tests.explore --seed 7 -- -k classic_groups

A round runs every test that is marked `walk` (see tests/conftest.py) once; with an odd seed, on the
event loop of tests/jumping_loop.py, whose clock jumps between two reads. A failing round
prints the schedule and the command that repeats it. Hypothesis stores the failing example in
.hypothesis and tries it first in each later round; the whole output stays in .explore. Turn a
failure into a test, or into an `@example`: the suite itself draws the same examples in every run.

The run ends after the round in which its time is up, and fails if a round failed.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from tests.jumping_loop import JUMPS
from tests.seeds import VARIABLE

FINDS = Path(".explore")
WALKS = "walk and not real and not java and not brokers and not spark"
NO_SUCH_TEST = 5


def round_from(seed: int, arguments: list[str]) -> int:
    """Run every walk from a seed; pytest's exit status."""
    command = [sys.executable, "-m", "pytest", "-m", WALKS, f"--hypothesis-seed={seed}", "-q"]
    command += ["-n", "2", *arguments]
    environment = {**os.environ, VARIABLE: str(seed)}
    if seed % 2:
        environment[JUMPS] = str(seed)
    FINDS.mkdir(exist_ok=True)
    log = FINDS / f"{seed}.log"
    with log.open("wb") as output:
        status = subprocess.run(
            command,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    lines = log.read_text(errors="replace").splitlines()
    print(f"seed {seed}: {lines[-1] if lines else f'exit status {status}'}", flush=True)
    if status:
        print(f"\n{chr(10).join(lines)}\n\nkept in {log}; to repeat the round:")
        print(
            f"    python -m tests.explore --seed {seed}", *(["--", *arguments] if arguments else [])
        )
    else:
        log.unlink()
    return status


def main() -> int:
    """Run rounds until the time is up."""
    parser = argparse.ArgumentParser(prog="python -m tests.explore")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, help="one round, from this seed")
    parser.add_argument("arguments", nargs="*", help="for pytest")
    given = parser.parse_args()
    if given.seed is not None:
        return round_from(given.seed, given.arguments)
    until = time.monotonic() + given.minutes * 60
    rounds, failed = 0, []
    while not rounds or time.monotonic() < until:
        rounds += 1
        seed = random.SystemRandom().randrange(1, 2**31)
        status = round_from(seed, given.arguments)
        if status == NO_SUCH_TEST:
            return status
        if status:
            failed.append(seed)
    print(f"{rounds - len(failed)} rounds passed, {len(failed)} failed: {failed or 'no find'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
