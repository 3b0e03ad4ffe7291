"""The pictures of README.md agree with its figures."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.pictures.__main__ import main
from tools.pictures.architecture import architecture
from tools.pictures.benchmarks import benchmarks, measured

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_pictures_are_up_to_date():
    assert main(["--check"]) is None


def test_bars_are_the_figures_of_the_table():
    rows = measured(README)
    assert len(rows) >= 2
    for _, figures in rows:
        assert set(figures) == {"aiokafka_lite", "confluent-kafka", "aiokafka"}
        for figure in figures.values():
            assert f">{figure:g} µs<" in benchmarks(README)


def test_changed_figure_changes_the_picture():
    (_, figures), *_ = measured(README)
    changed = README.replace(f"{figures['aiokafka']:g} µs", "99 µs")
    assert benchmarks(changed) != benchmarks(README)


def test_readme_without_the_table_is_refused():
    with pytest.raises(ValueError, match="no table"):
        measured("# aiokafka_lite")


@pytest.mark.parametrize("text", [architecture(), benchmarks(README)])
def test_pictures_are_xml_and_follow_dark_mode(text: str):
    assert ElementTree.fromstring(text).get("role") == "img"
    assert "prefers-color-scheme: dark" in text
