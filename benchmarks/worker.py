"""Runs one measurement in its own process: `python -m benchmarks.worker JSON`.

Prints the figures as one line of JSON. The runner starts a worker for each measurement, so no
client inherits another client's heap, threads or garbage.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys

from .work import Work


def main() -> None:
    work = Work.load(sys.argv[1])
    client = importlib.import_module(f"benchmarks.clients.{work.client}")
    run = getattr(client, work.kind)
    if not inspect.iscoroutinefunction(run):
        result = run(work)
    elif work.loop == "uvloop":
        import uvloop

        result = uvloop.run(run(work))
    else:
        result = asyncio.run(run(work))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
