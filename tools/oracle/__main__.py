"""Compares this client's encoding of every message with that of the Java client."""

from __future__ import annotations

import argparse
import random
import time

from tools.oracle import golden, judge
from tools.protocol_gen.jars import JarsUnavailable

SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.oracle", description=__doc__)
    parser.add_argument(
        "--all", action="store_true", help="check every message and version in depth"
    )
    parser.add_argument(
        "--cases",
        type=int,
        default=3000,
        help="number of cases without --all (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=None, help="default: random, printed")
    parser.add_argument(
        "--golden", action="store_true", help="rewrite the golden corpus of tests/golden"
    )
    options = parser.parse_args()
    try:
        return golden.rewrite() if options.golden else run(options)
    except JarsUnavailable as error:
        raise SystemExit(f"oracle: {error}") from error


def run(options: argparse.Namespace) -> int:
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    known = judge.known_messages()
    started = time.monotonic()
    if options.all:
        chance = random.Random(seed)
        cases = [
            case
            for message, version in judge.spoken(known)
            for case in judge.cases_of(message, version, 40, chance)
        ]
    else:
        cases = judge.sample(known, options.cases, seed)
    failed = judge.judge(cases)
    for case, problem in failed[:SHOWN]:
        print(f"FAILED {case}: {problem}")
    kinds = {kind: sum(case.kind == kind for case in cases) for kind in ("same", "tags", "absent")}
    print(
        f"oracle: seed {seed}: {len(cases)} cases ({kinds}) of {len(known)} messages in "
        f"{len(judge.spoken(known))} versions, {len(failed)} failed, "
        f"{time.monotonic() - started:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
