"""A page of docs/ whose code blocks are tests, and are run as they stand."""

import re
from pathlib import Path

import pytest


class Guide:
    """One page.

    Attributes:
        text: All of it.
        blocks: Language and code of each block.
        tests: The code of those in Python.
    """

    def __init__(self, name: str) -> None:
        self.text = (Path(__file__).parents[2] / "docs" / name).read_text()
        self.blocks = re.findall(r"^```(\w+)\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)
        self.tests = [code for language, code in self.blocks if language == "python"]

    def check_blocks(self, *others: str) -> None:
        """Every block is a test, or in one of the other languages."""
        assert self.text.count("```") == 2 * len(self.blocks)
        assert all("async def test_" in code for code in self.tests)
        assert {language for language, _ in self.blocks} == {"python", *others}

    def run(self, pytester: pytest.Pytester) -> None:
        """Run the tests as a user would: in a process of their own, warnings being errors."""
        pytester.makepyfile(**{f"test_block_{n}": code for n, code in enumerate(self.tests)})
        options = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
        result = pytester.runpytest_subprocess(
            "-p", "no:cacheprovider", "-p", "no:anyio", "-W", "error", *options
        )
        result.assert_outcomes(passed=len(self.tests))

    def metrics(self) -> list[str]:
        """The names in its table of metrics, in alphabetical order."""
        _, _, table = self.text.partition("| subject | metrics |\n|---|---|\n")
        table, _, _ = table.partition("\n\n")
        told: list[str] = []
        for name in re.findall(r"`([a-z-]+)`", table):
            # "-max" after "request-latency-avg" is "request-latency-max".
            told.append(told[-1].rpartition("-")[0] + name if name.startswith("-") else name)
        return sorted(told)
