"""The parts of a release: bounded requirements, and a bill of materials."""

import json
import re
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from aiokafka_lite import __version__
from tools import sbom

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_required_package_has_both_bounds_and_a_reason():
    page = (ROOT / "docs" / "versioning.md").read_text()
    for requirement in PROJECT["project"]["dependencies"]:
        name = re.match(r"[\w-]+", requirement)[0]
        assert re.fullmatch(r"[\w-]+>=[\d.]+,<\d+", requirement), requirement
        assert f"| {name} |" in page


def test_makefile_builds_with_the_tools_of_the_project():
    makefile = (ROOT / "Makefile").read_text()
    for requirement in PROJECT["build-system"]["requires"]:
        assert f"'{requirement}'" in makefile


def test_changelog_begins_with_the_version():
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heading
    assert heading[1] == "Unreleased" or re.fullmatch(
        re.escape(__version__) + r" - \d{4}-\d\d-\d\d", heading[1]
    )


def installed(folder: Path, name: str, version: str, *requires: str) -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    lines = [f"Name: {name}", f"Version: {version}", "License-Expression: MIT"]
    lines += [f"Requires-Dist: {each}" for each in requires]
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", *lines]) + "\n")


def test_bill_of_materials_lists_what_is_required(tmp_path, monkeypatch: pytest.MonkeyPatch):
    installed(tmp_path, "top", "1.0", "Some_Part<3,>=2", 'extra_part; extra == "more"')
    installed(tmp_path, "Some.Part", "2.5", "deep>=1")
    installed(tmp_path, "deep", "1.1", "top")  # a cycle ends
    found = {sbom.normalized(p.stem.partition("-")[0]): p for p in tmp_path.iterdir()}
    monkeypatch.setattr(sbom, "distribution", lambda name: PathDistribution(found[name]))
    bill = sbom.bill("top")
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/top@1.0"
    assert [one["purl"] for one in bill["components"]] == [
        "pkg:pypi/deep@1.1",
        "pkg:pypi/some-part@2.5",
    ]
    assert bill["components"][0]["licenses"] == [{"license": {"name": "MIT"}}]
    assert {one["ref"]: one["dependsOn"] for one in bill["dependencies"]} == {
        "pkg:pypi/top@1.0": ["pkg:pypi/some-part@2.5"],
        "pkg:pypi/some-part@2.5": ["pkg:pypi/deep@1.1"],
        "pkg:pypi/deep@1.1": ["pkg:pypi/top@1.0"],
    }


def test_bill_of_materials_of_this_package_is_json():
    names = {one["name"] for one in json.loads(json.dumps(sbom.bill()))["components"]}
    assert {sbom.normalized(name) for name in names} == {"crc32c", "cramjam", "lz4", "zstandard"}
