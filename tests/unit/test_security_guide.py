"""Every code block of docs/security.md is run, as it stands."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "security.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
SHELL = [code for language, code in BLOCKS if language == "sh"]


def test_there_are_no_other_blocks() -> None:
    assert GUIDE.read_text().count("```") == 2 * len(BLOCKS) == 2 * (len(PYTHON) + len(SHELL))
    assert all("async def test_" in code for code in PYTHON)


@pytest.mark.timeout(120)
def test_blocks(pytester: pytest.Pytester) -> None:
    for command in SHELL:
        subprocess.run(
            shlex.split(command.replace("\\\n", "")),
            cwd=pytester.path,
            check=True,
            capture_output=True,
            timeout=60,
        )
    pytester.makepyfile(**{f"test_block_{n}": code for n, code in enumerate(PYTHON)})
    options = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-p", "no:anyio", "-W", "error", *options
    )
    result.assert_outcomes(passed=len(PYTHON))
