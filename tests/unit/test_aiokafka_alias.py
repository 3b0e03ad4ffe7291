"""`import aiokafka` gives aiokafka_lite after `install_as_aiokafka`, each class once."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from aiokafka_lite.as_aiokafka.import_alias import MODULES


def run(
    *arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, cwd=cwd, env=env
    )


def unsafe_path() -> dict[str, str]:
    """Return the environment without PYTHONSAFEPATH, which a test of a wheel sets."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


def python(code: str) -> str:
    done = run("-c", f"import aiokafka_lite\n{code}")
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_aliased_module_exists(name: str) -> None:
    import_module(f"aiokafka_lite.{name}")


def test_submodules_are_the_same_objects_in_any_order_of_import() -> None:
    code = """
aiokafka_lite.install_as_aiokafka()
import aiokafka.admin.client, aiokafka.errors, aiokafka.producer.producer
import aiokafka_lite.errors, aiokafka_lite.structs
from aiokafka import TopicPartition, errors, structs
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
import sys
for alias in [name for name in sys.modules if name.startswith("aiokafka.")]:
    assert sys.modules[alias] is sys.modules["aiokafka_lite" + alias[8:]], alias
assert errors.KafkaError is aiokafka_lite.errors.KafkaError
assert aiokafka.AIOKafkaConsumer is aiokafka_lite.AIOKafkaConsumer
assert structs.__spec__.name == "aiokafka_lite.structs", structs.__spec__
assert structs.__loader__ is structs.__spec__.loader
assert aiokafka_lite.admin.__path__, aiokafka_lite.admin.__path__
assert aiokafka.AIOKafkaProducer and "AIOKafkaProducer" in dir(aiokafka)
from aiokafka import *
print(aiokafka.__version__, aiokafka.__aiokafka_lite_version__ == aiokafka_lite.__version__)
"""
    assert python(code) == "0.14.0 True"


def test_internal_module_of_aiokafka_is_refused_with_the_reason() -> None:
    code = """
aiokafka_lite.install_as_aiokafka()
try:
    import aiokafka.consumer.fetcher
except ModuleNotFoundError as error:
    print(error.name, "|", error)
try:
    from aiokafka import AIOKafkaProducers
except ImportError as error:
    print(error)
"""
    assert python(code).startswith(
        "aiokafka.consumer.fetcher | aiokafka.consumer.fetcher is not available: "
        "aiokafka_lite is installed as aiokafka"
    )


def test_second_call_does_nothing_and_uninstall_undoes_the_first() -> None:
    code = """
import sys
before = list(sys.meta_path)
aiokafka_lite.install_as_aiokafka()
aiokafka_lite.install_as_aiokafka()
assert len(sys.meta_path) == len(before) + 1
import aiokafka.errors
aiokafka_lite.uninstall_as_aiokafka()
assert sys.meta_path == before
print([name for name in sys.modules if name.startswith("aiokafka.") or name == "aiokafka"])
aiokafka_lite.uninstall_as_aiokafka()
aiokafka_lite.install_as_aiokafka()
import aiokafka
print(aiokafka.errors.KafkaError is aiokafka_lite.errors.KafkaError)
"""
    assert python(code) == "[]\nTrue"


def test_install_is_refused_after_aiokafka_was_imported() -> None:
    code = """
import sys, types
sys.modules["aiokafka"] = types.ModuleType("aiokafka")
try:
    aiokafka_lite.install_as_aiokafka()
except RuntimeError as error:
    print(error)
"""
    assert python(code).startswith("aiokafka is already imported (aiokafka): call install")


def test_program_runs_with_the_alias(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    program = tmp_path / "worker.py"
    program.write_text(
        "import sys, aiokafka, beside\n"
        "print(__name__, aiokafka.AIOKafkaProducer.__module__, beside.NAME, sys.argv[1:])\n"
        "sys.exit(3)\n"
    )
    expected = "__main__ aiokafka_lite.producer.producer beside ['-m', 'x']\n"
    for how in ([str(program)], ["-m", "worker"]):
        arguments = ("-m", "aiokafka_lite.as_aiokafka", *how, "-m", "x")
        done = run(*arguments, cwd=tmp_path, env=unsafe_path())
        assert (done.stdout, done.stderr, done.returncode) == (expected, "", 3)


@pytest.mark.parametrize("option", ["-P", "-u"])
def test_program_has_the_import_path_that_python_gives_it(tmp_path: Path, option: str) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    program = folder / "worker.py"
    program.write_text("import sys\nprint(sys.path)\n")
    directly = run(option, str(program), cwd=tmp_path, env=unsafe_path())
    aliased = run(
        *(option, "-m", "aiokafka_lite.as_aiokafka", str(program)), cwd=tmp_path, env=unsafe_path()
    )
    assert (aliased.stdout, aliased.stderr) == (directly.stdout, "")
    assert (str(folder) in directly.stdout) is (option != "-P")


@pytest.mark.parametrize("arguments", [[], ["-m"], ["-c", "print(1)"]])
def test_runner_without_a_program_prints_its_usage(arguments: list[str]) -> None:
    done = run("-m", "aiokafka_lite.as_aiokafka", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: python -m aiokafka_lite.as_aiokafka")
