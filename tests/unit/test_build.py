"""The choice between native modules and twins, each case in a new process."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

import aiokafka_lite

NATIVE_BUILT = find_spec("aiokafka_lite._consumer_record_native") is not None

SHOW = (
    "from aiokafka_lite import _build\n"
    "from aiokafka_lite.record.batch import BatchBuilder\n"
    "from aiokafka_lite._consumer_record import ConsumerRecord\n"
    "print(_build.NATIVE, BatchBuilder.__module__, ConsumerRecord.__module__)\n"
)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("AIOKAFKA_LITE_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_pure_environment_variable_selects_the_twins():
    shown = run(SHOW, AIOKAFKA_LITE_PURE="1").stdout.split()
    assert shown == [
        "False",
        "aiokafka_lite.record._batch_python",
        "aiokafka_lite._consumer_record_python",
    ]


def test_native_modules_are_used_where_built():
    pytest.importorskip("aiokafka_lite.record._batch_native", reason="the native build")
    shown = run(SHOW).stdout.split()
    assert shown == [
        "True",
        "aiokafka_lite.record._batch_native",
        "aiokafka_lite._consumer_record_native",
    ]


MISSING = (
    "from aiokafka_lite._build import pick\n"
    "print(pick('aiokafka_lite.record._not_compiled', 'aiokafka_lite.record._batch_python'))\n"
)


def test_twins_are_used_where_nothing_was_compiled():
    assert "_batch_python" in run(MISSING).stdout


def test_missing_native_module_raises_if_required():
    result = run(MISSING, AIOKAFKA_LITE_REQUIRE_NATIVE="1")
    assert result.returncode == 1
    assert "ModuleNotFoundError" in result.stderr


def test_native_module_that_fails_to_load_raises():
    """In this test, because one of its own imports is missing."""
    code = (
        "from aiokafka_lite._build import pick\n"
        "pick('aiokafka_lite.nothing.native', 'aiokafka_lite.record._batch_python')\n"
    )
    assert "No module named 'aiokafka_lite.nothing'" in run(code).stderr


@pytest.mark.parametrize(("pure", "build"), [("1", "pure Python"), ("", None)])
def test_start_logs_the_build(pure, build):
    build = build or ("native" if NATIVE_BUILT else "pure Python")
    shown = run("import aiokafka_lite as a; print(a.__build__)", AIOKAFKA_LITE_PURE=pure)
    assert shown.stdout == f"{build}\n"
    code = "from aiokafka_lite.cli import main; main(['--version'])"
    shown = run(code, AIOKAFKA_LITE_PURE=pure)
    assert shown.returncode == 0
    assert shown.stdout == f"aiokafka_lite {aiokafka_lite.__version__} ({build})\n"
    code = (
        "import asyncio, logging\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "from aiokafka_lite import AIOKafkaProducer\n"
        "async def main():\n"
        "    p = AIOKafkaProducer(bootstrap_servers='127.0.0.1:1', client_id='me')\n"
        "    for _ in range(2):\n"
        "        try: await p.start()\n"
        "        except Exception: pass\n"
        "    await p.stop()\n"
        "asyncio.run(main())\n"
    )
    shown = run(code, AIOKAFKA_LITE_PURE=pure)
    line = f"me: aiokafka_lite {aiokafka_lite.__version__} ({build}) is connecting to 127.0.0.1:1"
    assert shown.stderr.count(line) == 1, shown.stderr
