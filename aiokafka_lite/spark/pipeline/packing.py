"""Packs aiokafka_lite and its dependencies into one archive for Spark's executors.

Spark unpacks it beside each executor (`spark.archives`) and its folder is added to PYTHONPATH. So
native modules can be loaded, which `--py-files` does not allow. The archive fits machines like the
one that made it: the same Python minor version, operating system and processor architecture.

The cluster provides pyspark. It should also provide pyarrow and pandas, which take a hundred
megabytes, but `with_distributions` may add them.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import aiokafka_lite

__all__ = ["Packed", "pack"]

FINDER = "pyspark_aiokafka_lite.py"
NAMELESS = {"__pycache__", ".pytest_cache"}
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)(?!.*;.*extra)")


class Packed(NamedTuple):
    path: Path
    files: int
    size: int
    """Bytes of the archive."""
    packages: tuple[str, ...]


def pack(
    target: Path,
    *,
    with_modules: Sequence[str] = (),
    with_distributions: Sequence[str] = (),
) -> Packed:
    """Write the archive.

    Args:
        target: A .tar.gz or .tgz file; an existing file is replaced.
        with_modules: Further modules or packages, by import name, for a pipeline's functions.
        with_distributions: Installed distributions to add with their dependencies, by pip name.

    Raises:
        ValueError: The target has another suffix, or a module or distribution is missing.
    """
    if not target.name.endswith((".tar.gz", ".tgz")):
        raise ValueError(f"the archive must be a .tar.gz or .tgz file, not {target.name}")
    distributions = list(_needed([*_requirements("aiokafka_lite"), *with_distributions]))
    # Find all files before writing, so that a missing one leaves no partial archive.
    files = list(
        chain(
            _own_files(),
            *(_module_files(module) for module in with_modules),
            *(_distribution_files(distribution) for distribution in distributions),
        )
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    # An existing archive stays until the new one is complete.
    half = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with tarfile.open(half, "w:gz", compresslevel=3) as archive:
            for path, name in files:
                archive.add(path, name, recursive=False)
        half.replace(target)
    finally:
        half.unlink(missing_ok=True)
    packages = ("aiokafka_lite", *with_modules, *distributions)
    return Packed(target, len(files), target.stat().st_size, packages)


def _own_files() -> Iterator[tuple[Path, str]]:
    """Yield the package's files and the module by which Spark finds the format.

    An older editable installation may not list that module, although the file exists.
    """
    yield from _module_files("aiokafka_lite")
    beside = Path(aiokafka_lite.__file__).parents[1] / FINDER
    if not beside.is_file():
        raise ValueError(
            f"{beside} does not exist: the installation of aiokafka_lite is incomplete"
        )
    yield beside, FINDER


def _module_files(module: str) -> Iterator[tuple[Path, str]]:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # its package does not exist either
        spec = None
    if spec is None or spec.origin is None:
        raise ValueError(f"module {module} cannot be packed: it cannot be imported here")
    origin = Path(spec.origin)
    if spec.submodule_search_locations is None:
        yield origin, str(Path(*module.split(".")).with_suffix(origin.suffix))
        return
    folder = origin.parent
    for path in sorted(folder.rglob("*")):
        if path.is_file() and NAMELESS.isdisjoint(path.parts) and path.suffix != ".pyx":
            yield path, str(Path(*module.split("."), path.relative_to(folder)))


def _requirements(distribution: str) -> list[str]:
    """Return its unconditional requirements, without those of extras."""
    found = []
    for line in importlib.metadata.requires(distribution) or ():
        match = _REQUIREMENT.match(line)
        if match:
            found.append(match[1])
    return found


def _needed(names: Sequence[str]) -> Iterator[str]:
    """Yield these distributions and their dependencies on this platform."""
    for name in names:
        if not _is_installed(name):
            raise ValueError(f"distribution {name} cannot be packed: it is not installed here")
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop(0)
        plain = re.sub(r"[-_.]+", "-", name).lower()
        # A dependency that pip did not install is for another Python version or platform.
        if plain in seen or not _is_installed(name):
            continue
        seen.add(plain)
        waiting.extend(_requirements(name))
        yield plain


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _distribution_files(name: str) -> Iterator[tuple[Path, str]]:
    distribution = importlib.metadata.distribution(name)
    for file in distribution.files or ():
        # Scripts lie outside the packages' folder.
        if file.parts[0] == ".." or not NAMELESS.isdisjoint(file.parts):
            continue
        path = Path(str(distribution.locate_file(file)))
        if path.is_file():
            yield path, str(file)
