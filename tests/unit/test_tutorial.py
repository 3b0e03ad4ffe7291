"""The programs of docs/tutorial.md run one after the other, and print what the page shows."""

import subprocess
import sys
from pathlib import Path

import pytest

from aiokafka_lite.testing import FakeCluster
from tests.unit.guides import Guide

GUIDE = Guide("tutorial.md")
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(240)


def test_there_are_no_other_blocks():
    assert GUIDE.text.count("```") == 2 * len(GUIDE.blocks)
    assert {language for language, _ in GUIDE.blocks} == {"sh", "python", "text", "python test"}


def run(code: str, servers: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code.replace("localhost:9092", servers)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, ""), code
    return done.stdout


def test_programs_print_what_the_page_shows():
    (command,) = (code for language, code in GUIDE.blocks if language == "sh")
    assert command == "python -m aiokafka_lite broker --topics orders:2\n"
    with FakeCluster(topics={"orders": 2}) as cluster:
        servers = cluster.bootstrap_servers
        for number, (language, code) in enumerate(GUIDE.blocks):
            if language == "python":
                following, expected = GUIDE.blocks[number + 1]
                assert following == "text"
                assert run(code, servers) == expected, code
                if "group_id" in code:
                    assert run(code, servers) == "0 records\n"  # as the page says


def test_test_of_the_tutorial(pytester: pytest.Pytester):
    GUIDE.tests = [code for language, code in GUIDE.blocks if language == "python test"]
    GUIDE.run(pytester)
