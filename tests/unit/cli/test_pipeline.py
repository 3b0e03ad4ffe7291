"""The command `pipeline` without Spark, and with invalid arguments."""

import importlib.util
import re
from pathlib import Path

import pytest

from aiokafka_lite.cli import main
from aiokafka_lite.spark.pipeline import load
from aiokafka_lite.spark.pipeline import spark_session as session


def test_ready_made_pipelines_are_listed(capsys: pytest.CaptureFixture[str]):
    assert main(["pipeline", "list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["archive", "replay", "transform", "window"]


def test_shown_pipeline_can_be_run_as_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert main(["pipeline", "show", "window"]) == 0
    mine = tmp_path / "mine.toml"
    mine.write_text(capsys.readouterr().out)
    assert load(mine) == load("window")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "no.toml"], "'no.toml' is neither a file nor a ready-made pipeline"),
        (["run", "window", "--set", "frm=orders"], "no variable 'frm'"),
        (["run", "window", "--set", "orders"], "--set must be NAME=VALUE, not 'orders'"),
        (["run", "window", "--conf", "spark.ui.enabled"], "--conf must be NAME=VALUE"),
        (
            ["run", "window", "--remote", "sc://x", "--master", "local"],
            "--remote cannot be combined with",
        ),
        (["show", "orders"], "'orders' is neither a file nor a ready-made pipeline"),
        (
            ["pack", "--output", "lite.zip"],
            "the archive must be a .tar.gz or .tgz file, not lite.zip",
        ),
        (["demo", "--orders", "0"], "--orders must be at least 1"),
    ],
)
def test_invalid_arguments_are_reported(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
):
    assert main(["pipeline", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("pipeline: ")
    assert words in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("action", [["run", "window"], ["demo"]])
def test_missing_java_names_what_to_install(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    action: list[str],
):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["pipeline", *action]) == 1
    assert "apt install openjdk-17-jre-headless" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("missing", "remote", "words"),
    [
        ("pyspark", False, "pyspark is not installed: pip install 'aiokafka_lite[spark]'"),
        ("pandas", False, "pandas is not installed: pip install 'aiokafka_lite[spark]'"),
        ("grpc", True, "pip install 'pyspark[connect]'"),
    ],
)
def test_missing_package_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: str, remote: bool, words: str
):
    # Whatever is installed here.
    monkeypatch.setattr(session, "find_java", lambda: None)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, _=None: None if name == missing else object()
    )
    with pytest.raises(session.SparkMissing, match=re.escape(words)):
        session.need_spark(remote=remote)
