"""The run of `make pipeline`, with fewer orders."""

import os
import subprocess
import sys

import pytest

from tests.spark.processes import TOO_SLOW, TRIES


@pytest.mark.timeout(1200)
def test_orders_by_the_minute_come_through_spark():
    for _ in range(TRIES):
        done = subprocess.run(
            [sys.executable, "-m", "aiokafka_lite", "pipeline", "demo", "--orders", "6000"],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=380,
            check=False,
        )
        if TOO_SLOW not in done.stderr:
            break
    said = done.stdout + done.stderr[-3000:]
    assert done.returncode == 0, said
    assert "OK: 50 sums of 6,000 orders came through Spark, each once and correct" in done.stdout
    # SIGTERM ended it after it had read everything, including the order that closes the windows.
    assert "window: stopped: 6,001 rows in" in done.stdout, said
