"""`tools.gates` runs every part to its end, and its last line counts all failures."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tools.gates import FAILED_TESTS, GRACE, Outcome, outcome, total

MAKEFILE = """
test-good:
\t@echo "3 passed, 1 skipped in 0.10s"
test-bad:
\t@echo "collected 9 items"; echo "== 2 failed, 4 passed, 1 error in 61.30s (0:01:01) =="; exit 1
test-empty:
\t@echo "9 deselected in 0.10s"; exit 5
test-crash:
\t@kill -9 $$$$
test-slow: tools
\t@trap 'exit 2' INT; echo $$$$ > pid; mv pid begun; while sleep 10; do true; done
lint:
\t@echo clean
test-flaky:
\t@if [ -n "$(TESTS)" ]; then cat $(TESTS); echo "again with $(FLAGS)"; \\
\t\techo "$(or $(SECOND),2 passed) in 0.10s"; exit $(or $(STATUS),0); fi; \\
\t\tprintf 'a.py::x[1 - 2]\\nb.py::y\\na.py::x[1 - 2]\\n' > $$AIOKAFKA_LITE_FAILED_TESTS; \\
\t\techo "2 failed, 4 passed, 1 error in 61.30s"; exit 1
tools:
\t@echo "made again"; exit 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    return tmp_path


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tools.gates", "--logs", "logs", "--made", "tools", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "MAKEFLAGS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    process = start(folder, *arguments)
    output, _ = process.communicate(timeout=30)
    return process.returncode, output


def test_parts_after_a_failing_one_run_and_the_last_line_counts_all(folder: Path) -> None:
    status, output = run(folder, "--slots", "1", "test-bad", "lint", "test-good", "test-empty")
    assert status == 1
    assert "collected 9 items" in output
    assert re.search(r"^test-bad +FAILED .* 2 failed, 4 passed, 1 error$", output, re.MULTILINE)
    assert re.search(r"^test-good +ok .* 3 passed, 1 skipped$", output, re.MULTILINE)
    assert re.search(r"^test-empty +ok .* no test selected$", output, re.MULTILINE)
    assert re.search(r"^lint +ok", output, re.MULTILINE)
    assert output.splitlines()[-1].startswith("7 passed, 3 failed, 1 skipped in ")


def test_a_run_without_failures_succeeds(folder: Path) -> None:
    status, output = run(folder, "lint", "test-good", "test-empty")
    assert status == 0
    assert output.splitlines()[-1].startswith("3 passed, 0 failed, 1 skipped in ")


def test_a_part_that_dies_counts_as_a_failure(folder: Path) -> None:
    status, output = run(folder, "test-crash", "test-good")
    assert status == 1
    assert (
        "3 passed, 1 failed, 1 skipped (parts that failed outside of tests: test-crash)" in output
    )


def test_a_run_that_selects_no_test_fails(folder: Path) -> None:
    status, output = run(folder, "test-empty")
    assert status == 1
    assert output.splitlines()[-1].startswith("0 passed, 0 failed, 0 skipped in ")


def test_part_that_exceeds_its_time_limit_is_ended_and_counts_as_failed(folder: Path) -> None:
    status, output = run(folder, "--slots", "1", "--limit", "2", "test-slow", "test-good")
    assert status == 1
    assert "test-slow: did not end within 2 s" in output
    assert re.search(r"^test-slow +FAILED .* exit status 124$", output, re.MULTILINE)
    assert re.search(r"^test-good +ok .* 3 passed, 1 skipped$", output, re.MULTILINE)
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "begun").read_text()), 0)


def test_few_failed_tests_run_again_alone_and_are_listed_as_flaky(folder: Path) -> None:
    status, output = run(folder, "--again", "2", "test-flaky", "test-good")
    assert status == 0
    assert "a.py::x[1 - 2]\nb.py::y\nagain with -n 0\n" in output
    assert re.search(r"^test-flaky +ok .* 6 passed, 2 flaky$", output, re.MULTILINE)
    assert "flaky: b.py::y failed in test-flaky, and passed when it ran alone\n" in output
    assert output.splitlines()[-1].startswith("9 passed, 0 failed, 1 skipped in ")


def test_more_failed_tests_than_allowed_do_not_run_again(folder: Path) -> None:
    for options in [], ["--again", "1"]:
        status, output = run(folder, *options, "test-flaky")
        assert status == 1
        assert "again with" not in output
        assert output.splitlines()[-1].startswith("4 passed, 3 failed, 0 skipped in ")


@pytest.mark.parametrize(
    "second", [("2 failed", "1"), ("1 failed, 1 passed", "1"), ("1 passed, 1 skipped", "0")]
)
def test_test_that_does_not_pass_alone_fails_the_run(
    folder: Path, second: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECOND", second[0])
    monkeypatch.setenv("STATUS", second[1])
    status, output = run(folder, "--again", "2", "test-flaky")
    assert status == 1
    assert "again with" in output
    assert output.splitlines()[-1].startswith("4 passed, 3 failed, 0 skipped in ")


def test_failures_do_not_run_again_beside_a_part_that_failed_otherwise(folder: Path) -> None:
    for other in "test-bad", "test-crash":
        status, output = run(folder, "--again", "9", "test-flaky", other)
        assert status == 1
        assert "again with" not in output


CRASHING = """
import os, pytest
@pytest.fixture
def broken():
    yield
    raise OSError
def test_good(): pass
def test_bad(): assert False
@pytest.mark.parametrize("n", ["a - b"])
def test_broken(broken, n): assert False
def test_crash(): os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("options", [["-n", "0", "-k", "not crash"], ["-n", "1"]])
def test_pytest_writes_the_ids_of_failed_tests_but_not_of_crashes(
    tmp_path: Path, options: list[str]
) -> None:
    root = Path(__file__).parents[2]
    (tmp_path / "conftest.py").write_text((root / "tests/conftest.py").read_text())
    (tmp_path / "test_some.py").write_text(CRASHING)
    written = tmp_path / "failed"
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options),
            *("--rootdir", ".", "test_some.py"),  # pytest would choose one with a setup.py above
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root), FAILED_TESTS: str(written)},
        stdout=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    ids = sorted(written.read_text().splitlines())
    broken = "test_some.py::test_broken[a - b]"
    assert ids == ["test_some.py::test_bad", broken, broken]


def test_parts_end_with_the_run(folder: Path) -> None:
    process = start(folder, "test-slow")
    deadline = time.monotonic() + 20
    while not (folder / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    # A shell that is starting a program can miss a signal: the run then waits for `GRACE` and sends
    # the next of its three signals.
    process.communicate(timeout=3 * GRACE + 30)
    assert process.returncode == 130
    log = (folder / "logs" / "test-slow.log").read_text()
    assert "made again" not in log
    shell = int((folder / "begun").read_text())
    deadline = time.monotonic() + 20
    while Path(f"/proc/{shell}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("closing", "counts"),
    [
        ("\x1b[32m\x1b[1m12 passed\x1b[0m\x1b[32m in 3.45s\x1b[0m", {"passed": 12}),
        ("=== 1 failed, 2 errors in 3.45s ===", {"failed": 1, "error": 2}),
        ("no tests ran in 0.01s", {}),
    ],
)
def test_only_the_closing_line_of_pytest_is_counted(closing: str, counts: dict[str, int]) -> None:
    output = f"7 passed in 0.02s\n{closing}\nmake: *** [Makefile:3: test-real] Error 1\n"
    found = outcome("test-real", 2, 1.0, output)
    assert found == Outcome("test-real", 1, 1.0, Counter(counts))


def test_a_part_that_fails_after_its_tests_counts_as_a_failure() -> None:
    found = outcome("test-real", 2, 1.0, "5 passed in 0.02s\nmake: *** [x: y] Error 3\n")
    assert (found.failed, found.status) == (True, 3)
    assert (
        total([found])
        == "5 passed, 1 failed, 0 skipped (parts that failed outside of tests: test-real)"
    )
