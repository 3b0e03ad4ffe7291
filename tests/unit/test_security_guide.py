"""Runs every code block of docs/security.md, unchanged."""

import shlex
import subprocess

import pytest

from tests.unit.guides import Guide

GUIDE = Guide("security.md")


def test_every_code_block_is_known() -> None:
    GUIDE.check_blocks("sh")


@pytest.mark.timeout(120)
def test_blocks(pytester: pytest.Pytester) -> None:
    for language, command in GUIDE.blocks:
        if language == "sh":
            subprocess.run(
                shlex.split(command.replace("\\\n", "")),
                cwd=pytester.path,
                check=True,
                capture_output=True,
                timeout=60,
            )
    GUIDE.run(pytester)
