"""`setup.py` on machines that cannot compile, with one small module instead of the package's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("Cython")
pytestmark = pytest.mark.timeout(120)

SETUP = Path(__file__).parents[2] / "setup.py"


def build(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    package = folder / "aiokafka_lite"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    (package / "_small_native.pyx").write_text("answer = 42\n")
    shutil.copy(SETUP, folder)
    clean = {name: value for name, value in os.environ.items() if "AIOKAFKA_LITE_" not in name}
    return subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=folder,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_module_that_fails_to_compile_is_skipped_and_reported(tmp_path: Path):
    done = build(tmp_path, CC="false")
    assert done.returncode == 0, done.stderr
    assert "aiokafka_lite._small_native: NOT compiled" in done.stdout + done.stderr


def test_nothing_is_compiled_without_a_compiler(tmp_path: Path):
    done = build(tmp_path, CC="/no/such/compiler")
    assert done.returncode == 0, done.stderr
    assert "no C compiler found" in done.stdout
    assert not (tmp_path / "build").exists()


@pytest.mark.parametrize("compiler", ["false", "/no/such/compiler"])
def test_missing_compiler_fails_if_native_is_required(tmp_path: Path, compiler: str):
    done = build(tmp_path, CC=compiler, AIOKAFKA_LITE_REQUIRE_NATIVE="1")
    assert done.returncode != 0
    assert "small_native" in done.stderr or "there is no C compiler" in done.stderr
