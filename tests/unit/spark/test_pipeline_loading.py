"""Pipelines from files: formats, variables, and the bundled ones."""

import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from aiokafka_lite.spark.pipeline import SpecError, Sql, load, ready_pipelines
from aiokafka_lite.spark.pipeline.loading import find_specification

TOML = """
[variables]
limit = 10
[source]
format = "rate"
[[steps]]
sql = "SELECT * FROM records WHERE value < ${limit}"
[sink]
format = "console"
"""

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "pipelines").glob("*.toml"))


def write(folder: Path, text: str, name: str = "spec.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_variable_has_the_files_value_or_the_callers(tmp_path: Path):
    path = write(tmp_path, TOML)
    assert load(path).steps == (Sql("SELECT * FROM records WHERE value < 10"),)
    assert load(path, {"limit": "3"}).steps == (Sql("SELECT * FROM records WHERE value < 3"),)


def test_unknown_and_unset_variables_are_errors(tmp_path: Path):
    with pytest.raises(SpecError, match=r"no variable 'limt'; its \[variables\] are: limit"):
        load(write(tmp_path, TOML), {"limt": "3"})
    with pytest.raises(SpecError, match=r"\$\{limit\} has no value: set it"):
        load(write(tmp_path, TOML.replace("limit = 10", "")))


def test_secrets_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = TOML.replace("${limit}", "'${env:SECRET_8}' OR '$${limit}'")
    with pytest.raises(SpecError, match="environment variable SECRET_8 is not set"):
        load(write(tmp_path, text))
    monkeypatch.setenv("SECRET_8", "${limit}")
    steps = load(write(tmp_path, text)).steps
    assert steps == (Sql("SELECT * FROM records WHERE value < '${limit}' OR '${limit}'"),)


def test_variables_may_refer_to_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path, TOML.replace("limit = 10", "limit = '${env:LIMIT_8}'"))
    assert load(path, {"limit": "3"}).steps == (Sql("SELECT * FROM records WHERE value < 3"),)
    with pytest.raises(SpecError, match="environment variable LIMIT_8 is not set"):
        load(path)
    monkeypatch.setenv("LIMIT_8", "7")
    assert load(path).steps == (Sql("SELECT * FROM records WHERE value < 7"),)


@pytest.mark.parametrize(
    ("value", "text"), [("true", "true"), ("2026-01-02", "2026-01-02"), ("1.5", "1.5")]
)
def test_variables_are_converted_to_text_like_options(tmp_path: Path, value: str, text: str):
    path = write(tmp_path, TOML.replace("limit = 10", f"limit = {value}"))
    assert load(path).steps == (Sql(f"SELECT * FROM records WHERE value < {text}"),)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("[1]", "variables.limit must be a single value"),
        ("'${b}'", "variables.limit cannot refer to another"),
    ],
)
def test_invalid_variables_are_errors(tmp_path: Path, value: str, words: str):
    with pytest.raises(SpecError, match=words):
        load(write(tmp_path, TOML.replace("limit = 10", f"limit = {value}")))


def test_json_gives_the_same_pipeline(tmp_path: Path):
    mapping = {"source": {"format": "rate"}, "sink": {"format": "console"}}
    assert load(write(tmp_path, json.dumps(mapping), "spec.json")).source.format == "rate"


def test_yaml_is_read_where_its_parser_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = write(tmp_path, "source: {format: rate}\nsink: {format: console}\n", "spec.yaml")
    (tmp_path / "yaml.py").write_text(
        "class YAMLError(Exception): ...\n"
        "def safe_load(text):\n"
        "    return {'source': {'format': 'rate'}, 'sink': {'format': 'console'}}\n"
    )
    monkeypatch.delitem(sys.modules, "yaml", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert load(path).sink.format == "console"
    monkeypatch.delitem(sys.modules, "yaml")


def test_yaml_without_pyyaml_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path, "source: {format: rate}", "spec.yml")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SpecError, match="pip install PyYAML"):
        load(path)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("spec.toml", "a = ", "cannot be read"),
        ("spec.json", "[]", "must contain a table"),
        ("spec.xml", "<a/>", "a specification must be a .toml, .yaml or .json file, not '.xml'"),
        ("spec.toml", "variables = 3", "variables must be a table"),
        ("spec.toml", "sink = 3", r"spec.toml: a pipeline requires"),
    ],
)
def test_invalid_files_are_errors(tmp_path: Path, name: str, text: str, words: str):
    with pytest.raises(SpecError, match=words):
        load(write(tmp_path, text, name))


def test_a_missing_file_lists_the_ready_made_pipelines():
    with pytest.raises(
        SpecError, match=r"'orders.toml' is neither.*archive, replay, transform, window"
    ):
        load("orders.toml")


def test_every_ready_made_pipeline_is_valid():
    assert list(ready_pipelines()) == ["archive", "replay", "transform", "window"]
    for name, about in ready_pipelines().items():
        pipeline = load(name, {"bootstrap": "kafka:9092"})
        assert pipeline.name == name
        assert about
        kafka = pipeline.sink if name == "replay" else pipeline.source
        assert kafka.options["kafka.bootstrap.servers"] == "kafka:9092"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_valid(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    assert load(path).name == path.stem


def test_the_guides_specification_is_valid(tmp_path: Path):
    guide = (Path(__file__).parents[3] / "docs" / "pipelines.md").read_text()
    (specification,) = re.findall(r"```toml\n(.*?)```", guide, re.S)
    assert load(write(tmp_path, specification)).name == "orders_by_minute"


@pytest.mark.parametrize("name", sorted(ready_pipelines()))
def test_the_guide_names_every_variable_of_a_ready_pipeline(name: str):
    guide = (Path(__file__).parents[3] / "docs" / "pipelines.md").read_text()
    (row,) = re.findall(rf"^\| `{name}` \|.*\|(.*)\|$", guide, re.M)
    variables = tomllib.loads(find_specification(name).read_text())["variables"]
    assert re.findall(r"`(\w+)`", row) == [each for each in variables if each != "bootstrap"]
