"""The installed FastStream runs on this package in place of aiokafka."""

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

from aiokafka_lite.testing import FakeCluster

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("faststream") is None,
    reason="FastStream is not installed, so only test_aiokafka_admin.py's imitation of it ran: "
    "`pip install faststream` runs the real one",
)


async def test_faststream_administers_publishes_and_subscribes() -> None:
    async with FakeCluster(2, auto_create_topics=False) as cluster:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.foreign.faststream_application"),
            cluster.bootstrap_servers,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), *filter(None, sys.path)))},
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            printed, _ = await asyncio.wait_for(process.communicate(), 120)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0, printed.decode()
        assert json.loads(printed.splitlines()[-1]) == {
            "admin": "aiokafka_lite.admin.client",
            "created": [0],
            "again": [36],
            "received": "one tea",
            "ping": True,
            "brokers": [0, 1],
        }
        assert len(cluster.state.topics["orders"].partitions) == 2
