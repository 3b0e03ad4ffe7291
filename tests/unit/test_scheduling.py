"""Which tests of a parallel run share a process: tests/scheduling.py."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CONFTEST = """
import os
import pytest
from tests.scheduling import by_cluster

def pytest_xdist_make_scheduler(config, log):
    return by_cluster(config, log)

@pytest.fixture(params=[1, 2])
def kafka3(request):
    return request.param

@pytest.fixture(autouse=True)
def noted(request):
    with open("processes", "a") as out:
        out.write(f"{request.path.stem} {os.environ['PYTEST_XDIST_WORKER']}\\n")
"""
ONE_NODE = "def test(): ..."
THREE_NODES = "def test(kafka3): ..."


def test_files_on_three_nodes_share_a_process(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)
    # Without the scheduler, two processes would take the files in turn.
    pytester.makepyfile(test_a=THREE_NODES, test_b=ONE_NODE, test_c=ONE_NODE, test_d=THREE_NODES)
    result = pytester.runpytest_subprocess(
        *("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-p", "no:cacheprovider")
    )
    result.assert_outcomes(passed=6)
    lines = (pytester.path / "processes").read_text().splitlines()
    found = {line for line in lines if line.startswith(("test_a", "test_d"))}
    assert len({line.split()[1] for line in found}) == 1
    assert len(found) == 2
    assert len({line.split()[1] for line in lines}) == 2
