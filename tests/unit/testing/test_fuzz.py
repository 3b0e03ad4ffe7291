"""A short run of `make fuzz`: absurd requests, answered or rejected."""

import pytest

from tests.fuzz.broker import Fuzz


@pytest.mark.parametrize("oddity", [0.0, 0.02, 0.4])
@pytest.mark.parametrize("nodes", [1, 3])
def test_absurd_requests(nodes: int, oddity: float) -> None:
    fuzz = Fuzz(7, nodes=nodes, oddity=oddity, refusing=False, cpu_limit=None)
    for _ in range(300):
        fuzz.step()
    for _ in range(3000):  # one request in a hundred is refused
        if fuzz.endings["closed"]:
            break
        fuzz.step()
    assert fuzz.endings["answered"]
    assert fuzz.endings["closed"]


@pytest.mark.parametrize("oddity", [0.0, 0.02, 0.4])
@pytest.mark.parametrize("nodes", [1, 3])
def test_absurd_requests_of_share_groups(nodes: int, oddity: float) -> None:
    fuzz = Fuzz(7, nodes=nodes, oddity=oddity, refusing=False, cpu_limit=None, sharing=True)
    for _ in range(1000):
        fuzz.step()
    member = fuzz.member
    assert member is not None
    for _ in range(5000):
        if member.acknowledged:
            break
        fuzz.step()
    assert member.acquired
    assert member.acknowledged
