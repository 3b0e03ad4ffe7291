"""Warnings about the build and the Python interpreter with which Spark runs the package.

Both can make a job slow or fail without an obvious cause. A Python data source cannot report
metrics to Spark, so the warnings are logged: a task's in its executor's log, the planner's and
the sink's in the driver's log.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, Protocol

import aiokafka_lite
from aiokafka_lite._build import NATIVE

__all__ = ["Context", "warn_of_other_python", "warn_of_pure_build", "warn_of_pure_tasks"]

logger = logging.getLogger(__name__)

_LOOK: Final = 20.0  # timeout in seconds for an interpreter's import check

_FIND: Final = (
    "import sys; from importlib.util import find_spec; "
    "sys.exit(not all(map(find_spec, ('aiokafka_lite', 'pyarrow'))))"
)

_REMEDY: Final = (
    "Install a wheel there, or build one with a C compiler, and remove any source folder of "
    "aiokafka_lite from PYTHONPATH. Set AIOKAFKA_LITE_REQUIRE_NATIVE=1 in its environment to make "
    "such a process fail instead"
)

_said: dict[str, int] = {}
"""By kind of warning, the process that logged it, because a fork logs its own."""


class Context(Protocol):
    """The interface of a `SparkContext`."""

    @property
    def master(self) -> str: ...

    @property
    def pythonExec(self) -> str: ...


def warn_of_pure_build(where: str) -> None:
    """Log once per process that it runs the pure-Python twins of the native modules.

    Args:
        where: The role of the process in Spark.
    """
    if NATIVE or not _is_first("build"):
        return
    logger.warning(
        "%s runs the pure-Python modules of aiokafka_lite, which take several times the CPU of the "
        "compiled ones (process %d, %s, package in %s). %s.",
        where,
        os.getpid(),
        sys.executable,
        Path(aiokafka_lite.__file__).parent,
        _REMEDY,
    )


def warn_of_pure_tasks(pure: int, tasks: int) -> None:
    """Log, once per process, on the driver, that tasks of a sink ran the pure-Python twins.

    Args:
        pure: Number of tasks that did.
        tasks: Number of all tasks.
    """
    if not pure or not _is_first("tasks"):
        return
    logger.warning(
        "%d of %d tasks that wrote to Kafka ran the pure-Python modules of aiokafka_lite, which "
        "take several times the CPU of the compiled ones; the executors' logs name their folder. "
        "%s.",
        pure,
        tasks,
        _REMEDY,
    )


def _is_first(kind: str) -> bool:
    if _said.get(kind) == os.getpid():
        return False
    _said[kind] = os.getpid()
    return True


def warn_of_other_python(context: Context) -> None:
    """Log that a local session starts its workers with a Python that lacks the package.

    Ignores a session on a cluster, because its executors have their own Python.
    """
    if not context.master.startswith("local"):
        return
    python = shutil.which(context.pythonExec)
    if python is None or Path(python).parent == Path(sys.executable).parent:
        return
    try:
        found = subprocess.run(
            [python, "-c", _FIND], stdin=subprocess.DEVNULL, capture_output=True, timeout=_LOOK
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.info("Could not check what %s can import: %s", python, error)
        return
    if found.returncode:
        logger.warning(
            "Spark starts its Python workers with %s, which cannot import aiokafka_lite and "
            "pyarrow. This program runs in %s: activate its virtual environment, or set "
            'os.environ["PYSPARK_PYTHON"] = sys.executable before the session is created.',
            python,
            sys.executable,
        )
