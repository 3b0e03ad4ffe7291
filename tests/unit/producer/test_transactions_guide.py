"""Every code block of docs/transactions.md is run, as it stands."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "transactions.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def test_there_are_no_other_blocks() -> None:
    assert GUIDE.read_text().count("```") == 2 * len(BLOCKS)
    assert all("async def test_" in code for code in BLOCKS)


@pytest.mark.timeout(120)
def test_blocks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(**{f"test_block_{n}": code for n, code in enumerate(BLOCKS)})
    options = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-p", "no:anyio", "-W", "error", *options
    )
    result.assert_outcomes(passed=len(BLOCKS))
