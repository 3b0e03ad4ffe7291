"""The archive for executors: its contents, and that it is sufficient."""

import errno
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from aiokafka_lite import _build
from aiokafka_lite.spark.pipeline.packing import Packed, pack


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """One archive with everything that can go into one: each takes seconds to compress."""
    folder = tmp_path_factory.mktemp("packed")
    (folder / "my_steps_8.py").write_text("")
    (folder / "my_package_8").mkdir()
    (folder / "my_package_8" / "__init__.py").write_text("")
    (folder / "my_package_8" / "table.json").write_text("{}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        return pack(
            folder / "lite.tar.gz",
            with_modules=["my_steps_8", "my_package_8"],
            with_distributions=["pytest_asyncio"],
        )


@pytest.fixture(scope="module")
def archive(packed: Packed) -> Path:
    return packed.path


def test_an_unpacked_archive_is_enough_to_import_the_package(archive: Path, tmp_path: Path):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    code = (
        "import aiokafka_lite, aiokafka_lite.record.batch, pyspark_aiokafka_lite, lz4.frame\n"
        "from aiokafka_lite import _build\n"
        "print(aiokafka_lite.__file__, lz4.frame.__file__, _build.NATIVE)"
    )
    # -S: nothing that is installed is found.
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(tmp_path), "PATH": "/nowhere"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    own, foreign, native = done.stdout.split()
    assert Path(own) == tmp_path / "aiokafka_lite" / "__init__.py"
    assert Path(foreign).is_relative_to(tmp_path)
    packed_native = any((tmp_path / "aiokafka_lite").rglob("*.so"))
    assert (native == "True") == packed_native
    assert packed_native or not _build.NATIVE


def test_neither_caches_nor_sources_of_native_modules_are_packed(archive: Path):
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    assert len(names) == len(set(names))
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyx")]


def test_own_modules_are_packed(packed: Packed):
    with tarfile.open(packed.path) as archive:
        names = set(archive.getnames())
    assert {"my_steps_8.py", "my_package_8/__init__.py", "my_package_8/table.json"} <= names
    assert packed.files == len(names)


def test_distributions_are_packed_with_their_dependencies(packed: Packed):
    assert {"pytest-asyncio", "pytest", "pluggy", "lz4"} <= set(packed.packages)


@pytest.mark.parametrize(
    ("target", "more", "words"),
    [
        ("a.zip", {}, "the archive must be a .tar.gz or .tgz file"),
        ("a.tgz", {"with_modules": ["no_such_module_8"]}, "no_such_module_8 cannot be packed"),
        ("a.tgz", {"with_modules": ["no_package_8.module"]}, "no_package_8.module cannot be pack"),
        ("a.tgz", {"with_distributions": ["no-such-8"]}, "no-such-8 cannot be packed: it is not"),
    ],
)
def test_missing_modules_and_distributions_are_errors(
    tmp_path: Path, target: str, more: dict[str, list[str]], words: str
):
    with pytest.raises(ValueError, match=words):
        pack(tmp_path / target, **more)
    assert not (tmp_path / target).exists()


def test_an_existing_archive_stays_until_the_new_one_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    target = tmp_path / "a.tgz"
    target.write_text("the one before")
    monkeypatch.setattr(tarfile.TarFile, "add", full)
    with pytest.raises(OSError, match="No space left"):
        pack(target)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tgz"]
    assert target.read_text() == "the one before"
