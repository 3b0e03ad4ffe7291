"""Runs a program with aiokafka_lite as `aiokafka`, like `python` itself:

    python -m aiokafka_lite.as_aiokafka -m faststream run app:app
    python -m aiokafka_lite.as_aiokafka worker.py --topic orders

Libraries that the program imports, and that import aiokafka, then use aiokafka_lite (see
`aiokafka_lite.install_as_aiokafka`). Subprocesses of the program are not affected.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from aiokafka_lite.as_aiokafka.import_alias import install_as_aiokafka

__all__ = ["main"]

USAGE = "usage: python -m aiokafka_lite.as_aiokafka [-m module | file] [argument ...]"


def main(arguments: Sequence[str]) -> int:
    """Run a module or a file with the rest of the arguments.

    Returns:
        2 if there is nothing to run; otherwise what the program does decides.
    """
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)
        print((__doc__ or "").rstrip())
        return 0
    module = arguments[:1] == ["-m"]
    rest = list(arguments[1:] if module else arguments)
    if not rest or (not module and rest[0].startswith("-")):
        print(USAGE, file=sys.stderr)
        return 2
    install_as_aiokafka()
    sys.argv = rest  # runpy replaces the first with the module's path
    if module:
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        if not sys.flags.safe_path:  # otherwise the first entry is not the current folder
            sys.path[0] = str(Path(rest[0]).resolve().parent)
        runpy.run_path(rest[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
