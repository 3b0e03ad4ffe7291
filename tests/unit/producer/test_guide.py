"""Every code block of docs/producer.md is run, as it stands."""

import re
from pathlib import Path

import pytest

from aiokafka_lite import AIOKafkaProducer

GUIDE = Path(__file__).parents[3] / "docs" / "producer.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def test_there_are_no_other_blocks() -> None:
    assert GUIDE.read_text().count("```") == 2 * len(BLOCKS)
    assert all("async def test_" in code for code in BLOCKS)


async def test_all_metrics_are_told_of() -> None:
    _, _, table = GUIDE.read_text().partition("| of what | names |\n|---|---|\n")
    table, _, _ = table.partition("\n\n")
    told: list[str] = []
    for name in re.findall(r"`([a-z-]+)`", table):
        # "-max" after "request-latency-avg" is "request-latency-max".
        told.append(told[-1].rpartition("-")[0] + name if name.startswith("-") else name)
    producer = AIOKafkaProducer()
    try:
        assert sorted(told) == sorted(producer.metrics())
    finally:
        await producer.stop()


@pytest.mark.timeout(120)
def test_blocks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(**{f"test_block_{n}": code for n, code in enumerate(BLOCKS)})
    options = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-p", "no:anyio", "-W", "error", *options
    )
    result.assert_outcomes(passed=len(BLOCKS))
