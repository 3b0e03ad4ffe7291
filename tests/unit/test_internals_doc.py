"""docs/internals.md names only files and names that exist, and every folder of the package."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "aiokafka_lite"
TEXT = (ROOT / "docs" / "internals.md").read_text()

PATHS = sorted(set(re.findall(r"\baiokafka_lite/[\w/.]*\w/?", TEXT)))
NAMES = sorted(set(re.findall(r"\b(aiokafka_lite/[\w/]+\.py):([A-Za-z_][\w.]*\w)", TEXT)))
SHORT_PATHS = sorted(set(re.findall(r"(?<![\w/.])(?!aiokafka_lite/)(?:\w+/)+\w+\.pyx?\b", TEXT)))


def file_map() -> list[tuple[str, str]]:
    """(folder, file) of each bare file name, from the folder that was named last before it."""
    section = TEXT.split("\n## File map\n")[1].split("\n## ")[0]
    folder, found = "", []
    for line in section.splitlines():
        heading = re.match(r"(?:### )?`(aiokafka_lite/[\w/]*)`", line)
        if heading:
            folder = heading[1]
        found += [(folder, name) for name in re.findall(r"`(\w+\.py)`", line)]
    return found


def defines(path: Path, dotted: str) -> bool:
    """True if the module defines the class, function or method."""
    body = ast.parse(path.read_text()).body
    for name in dotted.split("."):
        found = [
            node
            for node in body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name == name
        ]
        if not found:
            return False
        body = found[0].body
    return True


def test_the_page_names_files() -> None:
    assert len(PATHS) > 100
    assert len(NAMES) > 40


@pytest.mark.parametrize("path", PATHS)
def test_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("path", SHORT_PATHS)
def test_short_path_exists(path: str) -> None:
    assert (ROOT / path).exists() or (PACKAGE / path).exists()


@pytest.mark.parametrize(("folder", "name"), file_map())
def test_file_is_in_the_folder_it_is_listed_under(folder: str, name: str) -> None:
    assert (ROOT / folder / name).exists()


@pytest.mark.parametrize(("path", "name"), NAMES)
def test_name_is_defined_in_its_file(path: str, name: str) -> None:
    assert defines(ROOT / path, name)


def test_every_folder_is_in_the_file_map() -> None:
    folders = {str(file.parent.relative_to(ROOT)) + "/" for file in PACKAGE.rglob("__init__.py")}
    folders.remove("aiokafka_lite/")
    assert not {folder for folder in folders if f"`{folder}`" not in TEXT}
