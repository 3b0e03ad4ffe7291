"""Features that Windows lacks are refused with a clear message, or replaced. Windows is
simulated."""

import signal
import subprocess
import sys

import pytest

from aiokafka_lite.cli import main
from aiokafka_lite.testing import FakeCluster

WITHOUT_SIGNAL_HANDLERS = """
import asyncio, sys

def not_here(*arguments):
    raise NotImplementedError

asyncio.SelectorEventLoop.add_signal_handler = not_here
sys.modules["uvloop"] = None
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "uvloop" else find_spec(name, *rest)
from aiokafka_lite.cli import main
sys.exit(main(["broker", "--listen", "127.0.0.1:0"]))
"""


@pytest.mark.parametrize("command", ["produce", "consume", "top", "pipeline"])
def test_commands_that_need_posix_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
):
    monkeypatch.setattr(sys, "platform", "win32")
    assert main([command]) == 1
    assert f"{command} does not run on Windows: use WSL" in capsys.readouterr().err


def test_data_dir_without_file_locks_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.delitem(sys.modules, "aiokafka_lite.testing.data_folder", raising=False)
    with pytest.raises(ValueError, match="data_dir needs file locks"):
        FakeCluster(data_dir=tmp_path)


def test_broker_ends_on_ctrl_c_without_signal_handlers_of_the_loop():
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", code + WITHOUT_SIGNAL_HANDLERS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert "Kafka is ready" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
