"""Every Python block of docs/observability.md is run, as it stands."""

import pytest

from tests.unit.guides import Guide

GUIDE = Guide("observability.md")


def test_there_are_no_other_blocks() -> None:
    GUIDE.check_blocks("yaml", "bash")


@pytest.mark.timeout(120)
def test_blocks(pytester: pytest.Pytester) -> None:
    GUIDE.run(pytester)
