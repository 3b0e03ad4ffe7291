"""The search for Java, and the error if there is none that Spark supports."""

from pathlib import Path

import pytest

from aiokafka_lite.spark.pipeline.java import Java, JavaMissing, find_java


def fake_java(folder: Path, says: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\n")
    path.chmod(0o755)
    return path


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = fake_java(tmp_path, 'openjdk version "21.0.4" 2024-07-16')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == Java(str(path), "21.0.4", 21)


def test_java_on_the_path_is_found_without_java_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = fake_java(tmp_path, 'java version "17" 2021-09-14 LTS')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    assert find_java() == Java(str(path), "17", 17)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ('java version "1.8.0_292"', "is Java 1.8.0_292"),
        ('openjdk version "11.0.2" 2019', "is Java 11.0.2"),
        ("The operation couldn't be completed.", 'printed "The operation'),
    ],
)
def test_unsupported_java_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, words: str
):
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing) as caught:
        find_java()
    assert words in str(caught.value)
    assert "apt install openjdk-17-jre-headless" in str(caught.value)


def test_missing_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match=r"Java was not found\. Spark needs Java 17 or newer"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=r"JAVA_HOME is .* but .*/bin/java does not exist"):
        find_java()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("")
    with pytest.raises(JavaMissing, match="cannot be started"):
        find_java()
