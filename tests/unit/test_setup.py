"""`setup.py` on machines that cannot compile, with one small module instead of the package's."""

import hashlib
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


def archive(folder: Path, umask: int, **environment: str) -> str:
    """Build the source archive of a small package; return the digest of its bytes."""
    package = folder / "aiokafka_lite"
    package.mkdir(parents=True)
    for name in ("__init__.py", "_small_native.pyx", "tool.sh"):
        (package / name).write_text("answer = 42\n")
        (package / name).chmod(0o666 & ~umask)
    (folder / "MANIFEST.in").write_text("graft aiokafka_lite\n")
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "small"\nversion = "1"\n'
        '[tool.setuptools]\npackages = ["aiokafka_lite"]\n'
    )
    shutil.copy(SETUP, folder)
    subprocess.run(
        [sys.executable, "setup.py", "sdist"],
        cwd=folder,
        env={**os.environ, **environment},
        umask=umask,
        check=True,
        timeout=100,
    )
    assert not (folder / "build").exists(), "nothing is compiled for it"
    return hashlib.sha256((folder / "dist" / "small-1.tar.gz").read_bytes()).hexdigest()


def test_source_archives_are_identical(tmp_path: Path):
    first = archive(tmp_path / "one", 0o022, SOURCE_DATE_EPOCH="1700000000")
    assert archive(tmp_path / "other", 0o077, SOURCE_DATE_EPOCH="1700000000") == first
    assert archive(tmp_path / "later", 0o022, SOURCE_DATE_EPOCH="1700000060") != first
