"""One client doing one work in a process of its own: `python -m benchmarks.worker JSON`.

Prints one JSON line with the figures. The runner starts one worker a measurement, so that no
client inherits another's heap, threads or garbage.
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
