"""The names of the package's files: each base name has one module, and no folder is crowded."""

from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "aiokafka_lite"
SOURCES = {".py", ".pyx", ".pxd", ".pyi", ".h"}
MAX_FILES = 22

EXEMPT_FOLDERS = {
    "protocol/messages",  # generated, a module per message
    "testing/apis",  # a module per API, named after it
}
PARTS_OF_TWO_PROTOCOLS = {
    frozenset({"group/classic", "group/consumer"}),  # the two group protocols
}
PERMITTED = {
    "__init__": "Python's name for a package",
    "__main__": "Python's name for what `python -m` runs",
    "client": "aiokafka's import paths: aiokafka.client and aiokafka.admin.client",
}


def sources() -> list[Path]:
    """The source files of the package, relative to it."""
    found = [path for path in PACKAGE.rglob("*") if path.suffix in SOURCES and path.is_file()]
    return [path.relative_to(PACKAGE) for path in found]


def folders_by_name(paths: list[Path]) -> dict[str, set[str]]:
    """The folders that have a module of each base name; `.pyx` and `.pxd` are one module."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        folder = path.parent.as_posix()
        if folder not in EXEMPT_FOLDERS:
            found[path.stem].add(folder)
    return found


def repeated(paths: list[Path]) -> dict[str, set[str]]:
    """The base names of several modules, without those that the rules permit."""
    return {
        name: folders
        for name, folders in folders_by_name(paths).items()
        if len(folders) > 1
        and name not in PERMITTED
        and frozenset(folders) not in PARTS_OF_TWO_PROTOCOLS
    }


def test_no_two_modules_share_a_base_name() -> None:
    assert repeated(sources()) == {}


def test_a_repeated_base_name_is_found() -> None:
    paths = [Path("a/x.py"), Path("b/x.pyx"), Path("b/x.pxd"), Path("a/y.pyx"), Path("a/y.pxd")]
    paths += [Path("group/classic/z.py"), Path("group/consumer/z.py")]
    assert repeated(paths) == {"x": {"a", "b"}}
    assert repeated([*paths, Path("net/z.py")]).keys() == {"x", "z"}


def test_every_exception_is_in_use() -> None:
    found = folders_by_name(sources())
    assert {name for name in PERMITTED if len(found[name]) < 2} == set()
    assert found["client"] == {".", "admin"}
    assert {folder for folder in EXEMPT_FOLDERS if not (PACKAGE / folder).is_dir()} == set()


def test_a_folder_has_at_most_22_files() -> None:
    counts: dict[str, int] = defaultdict(int)
    for path in sources():
        counts[path.parent.as_posix()] += 1
    crowded = {folder: count for folder, count in counts.items() if count > MAX_FILES}
    assert crowded.keys() <= EXEMPT_FOLDERS, crowded
