"""A page of docs/ whose code blocks run unchanged as tests."""

import re
from pathlib import Path

import pytest


class Guide:
    """One page.

    Args:
        elsewhere: Words of Python blocks that another test runs.

    Attributes:
        text: The whole page.
        blocks: Language and code of each block.
        tests: The code of the Python blocks.
    """

    def __init__(self, name: str, *elsewhere: str) -> None:
        self.text = (Path(__file__).parents[2] / "docs" / name).read_text()
        self.blocks = re.findall(
            r"^```(\w+(?: \w+)?)\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL
        )
        self.tests = [
            code
            for language, code in self.blocks
            if language == "python" and not any(word in code for word in elsewhere)
        ]

    def check_blocks(self, *others: str) -> None:
        """Check that every block is a Python test or in one of the other languages."""
        assert self.text.count("```") == 2 * len(self.blocks)
        assert all("async def test_" in code for code in self.tests)
        assert {language for language, _ in self.blocks} == {"python", *others}

    def run(self, pytester: pytest.Pytester, *more: str) -> None:
        """Run the tests as a user would, in a new process, with warnings as errors.

        Tests that call `importorskip` may be skipped.

        Args:
            more: Further arguments of pytest.
        """
        pytester.makepyfile(**{f"test_block_{n}": code for n, code in enumerate(self.tests)})
        options = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
        result = pytester.runpytest_subprocess(
            "-p", "no:cacheprovider", "-p", "no:anyio", "-W", "error", *options, *more
        )
        skipped = result.parseoutcomes().get("skipped", 0)
        assert skipped <= sum("importorskip" in code for code in self.tests)
        result.assert_outcomes(passed=len(self.tests) - skipped, skipped=skipped)

    def table(self, heading: str) -> list[list[str]]:
        """The rows of the table that begins with this line, cell by cell."""
        _, found, rest = self.text.partition(heading + "\n")
        assert found, heading
        rows, _, _ = rest.partition("\n\n")
        lines = rows.splitlines()[1:]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    def metrics(self) -> list[str]:
        """The names in the page's table of metrics, sorted."""
        _, _, table = self.text.partition("| subject | metrics |\n|---|---|\n")
        table, _, _ = table.partition("\n\n")
        names: list[str] = []
        for name in re.findall(r"`([a-z-]+)`", table):
            # "-max" after "request-latency-avg" is "request-latency-max".
            names.append(names[-1].rpartition("-")[0] + name if name.startswith("-") else name)
        return sorted(names)
