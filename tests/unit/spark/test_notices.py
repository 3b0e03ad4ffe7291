"""Warnings about the build and the Python that Spark runs, tested without Spark and Java."""

import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from aiokafka_lite.spark import notices


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_said", {})


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_a_pure_build_is_logged_once_per_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notices, "NATIVE", False)
    for _ in range(3):
        notices.warn_of_pure_build("A Python worker of a Spark task")
    (said,) = warnings(caplog)
    folder = str(Path(notices.__file__).parents[1])
    for part in ("A Python worker of a Spark task", "pure-Python", folder, sys.executable):
        assert part in said
    # A forked worker has its parent's memory, but its own log.
    monkeypatch.setattr(os, "getpid", lambda: 1)
    notices.warn_of_pure_build("A Python worker of a Spark task")
    assert len(warnings(caplog)) == 2


def test_a_native_build_is_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notices, "NATIVE", True)
    notices.warn_of_pure_build("A Python worker of a Spark task")
    notices.warn_of_pure_tasks(0, 4)
    assert warnings(caplog) == []


def test_the_driver_counts_the_pure_tasks_of_a_sink(caplog: pytest.LogCaptureFixture) -> None:
    notices.warn_of_pure_tasks(0, 4)
    notices.warn_of_pure_tasks(3, 4)
    notices.warn_of_pure_tasks(4, 4)
    (said,) = warnings(caplog)
    assert said.startswith("3 of 4 tasks")


@dataclass
class Context:
    master: str
    pythonExec: str


def interpreter(folder: Path, exit_code: int) -> str:
    """A program whose exit code shows whether it could import the package."""
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\nexit {exit_code}\n")
    path.chmod(0o755)
    return str(path)


def test_a_local_session_with_a_python_that_lacks_the_package(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    python = interpreter(tmp_path, 1)
    notices.warn_of_other_python(Context("local[2]", python))
    (said,) = warnings(caplog)
    for part in (python, sys.executable, "PYSPARK_PYTHON"):
        assert part in said


def test_a_python_that_has_the_package_and_that_of_a_cluster_are_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lacking = interpreter(tmp_path, 1)
    (tmp_path / "has").mkdir()
    having = interpreter(tmp_path / "has", 0)
    for master, python in (
        ("local[*]", sys.executable),
        ("local[*]", having),
        ("local[*]", "no-such-python"),
        ("spark://host:7077", lacking),
        ("yarn", lacking),
    ):
        notices.warn_of_other_python(Context(master, python))
    assert warnings(caplog) == []


@pytest.mark.parametrize("missing", ["", "aiokafka_lite", "pyarrow"])
def test_an_interpreter_that_lacks_a_package_is_recognized(tmp_path: Path, missing: str) -> None:
    """A stand-in for each package: only those of the path count with -S -E."""
    for name in {"aiokafka_lite", "pyarrow"} - {missing}:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; {notices._FIND}"
    done = subprocess.run([sys.executable, "-S", "-E", "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == (1 if missing else 0)
