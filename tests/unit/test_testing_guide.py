"""Runs every code block of docs/testing.md, unchanged."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "testing.md"
BLOCKS = re.findall(
    r"^```(\w+)(?: (\w+))?\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL
)
PYTHON = [code for language, _, code in BLOCKS if language == "python"]
SHELL = [code.strip() for language, _, code in BLOCKS if language == "sh"]
NEEDED = {"aiokafka", "confluent_kafka"}  # clients that only a full environment has

ASYNCIO = ("-p", "no:anyio", "-o", "asyncio_mode=auto")
ASYNCIO += ("-o", "asyncio_default_fixture_loop_scope=function")
ANYIO = ("-p", "no:asyncio")

pytestmark = pytest.mark.timeout(120)


def test_every_code_block_is_known() -> None:
    assert {language for language, _, _ in BLOCKS} == {"python", "sh"}
    assert GUIDE.read_text().count("```") == 2 * len(BLOCKS)


@pytest.mark.parametrize("framework", ["asyncio", "anyio"])
def test_tests(pytester: pytest.Pytester, framework: str) -> None:
    chosen = {
        f"test_block_{number}": code
        for number, (language, used, code) in enumerate(BLOCKS)
        if language == "python" and "def test_" in code and (used or "asyncio") == framework
    }
    for code in chosen.values():
        for module in NEEDED:
            if re.search(rf"^(import|from) {module}\b", code, re.MULTILINE):
                pytest.importorskip(module)
    pytester.makepyfile(**chosen)
    options = ASYNCIO if framework == "asyncio" else ANYIO
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error", *options)
    tests = sum(code.count("def test_") for code in chosen.values())
    backends = 2 if framework == "anyio" else 1  # asyncio's and trio's
    result.assert_outcomes(passed=tests * backends)
    assert tests


def test_programs(tmp_path: Path) -> None:
    programs = [code for code in PYTHON if "def test_" not in code]
    assert programs
    for code in programs:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(r"(127\.0\.0\.1:\d+[,\n])*", done.stdout)
        assert bool(done.stdout) == ("print(" in code)


def test_commands() -> None:
    assert SHELL
    for command in SHELL:
        assert command.startswith("python -m aiokafka_lite broker ")
        arguments = command.replace("127.0.0.1:9092", "127.0.0.1:0").split()[1:]
        process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("Kafka is ready at 127.0.0.1:")
        finally:
            process.terminate()
            process.communicate(timeout=30)
        assert process.returncode == 0
