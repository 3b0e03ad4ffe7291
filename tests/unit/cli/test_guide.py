"""Runs every shell block of docs/cli.md in order; each prints what the block after it shows."""

import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import aiokafka_lite
from aiokafka_lite.testing import FakeCluster
from tests.unit.cli.commands import environment
from tests.unit.guides import Guide

GUIDE = Guide("cli.md")
PATIENCE = 120  # seconds for one block


def test_there_are_no_other_blocks() -> None:
    assert GUIDE.text.count("```") == 2 * len(GUIDE.blocks)
    assert {language for language, _ in GUIDE.blocks} == {"sh", "text", "toml"}


@pytest.mark.timeout(600)
@pytest.mark.kafka(topics=["orders"])
def test_blocks(kafka_broker: FakeCluster, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "aiokafka-lite"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m aiokafka_lite "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    variables = environment(kafka_broker.bootstrap_servers, tmp_path)
    variables["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    variables["PYTHONPATH"] = str(Path(aiokafka_lite.__file__).parents[1])
    for number, (language, code) in enumerate(GUIDE.blocks):
        if language != "sh":
            continue
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", code],
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        following, expected = (*GUIDE.blocks, ("", ""))[number + 1]
        assert (done.returncode, done.stderr) == (0, ""), code
        assert done.stdout == (expected if following == "text" else ""), code


def test_the_profile_file_is_as_shown(tmp_path: Path) -> None:
    [shown] = [code for language, code in GUIDE.blocks if language == "toml"]
    assert tomllib.loads(shown)["profiles"][tomllib.loads(shown)["profile"]]
