"""Finds a Java for Spark, because Spark's own error without one is not helpful."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["NEEDED", "Java", "JavaMissing", "find_java"]

NEEDED = 17
"""The oldest Java version that Spark 4 supports."""

ADVICE = (
    f"Spark needs Java {NEEDED} or newer. Debian and Ubuntu: apt install openjdk-17-jre-headless;"
    " Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@21;"
    " conda: conda install -c conda-forge openjdk=21."
    " Then make `java -version` work, or set JAVA_HOME to its folder."
)


class JavaMissing(RuntimeError):
    """No Java for Spark was found; the message says what to install."""


class Java(NamedTuple):
    path: str
    version: str
    major: int


def find_java() -> Java:
    """Return the Java that Spark's scripts use: that of JAVA_HOME, else the first on the PATH.

    Raises:
        JavaMissing: There is none, it does not run, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if path is None or not Path(path).is_file():
        where = f"JAVA_HOME is {home}, but {path} does not exist" if home else "Java was not found"
        raise JavaMissing(f"{where}. {ADVICE}")
    try:
        answer = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError as error:
        raise JavaMissing(f"{path} cannot be started: {error}. {ADVICE}") from error
    found = re.search(r'version "(\d+)(?:\.(\d+))?[^"]*"', answer.stderr + answer.stdout)
    if found is None:
        said = (answer.stderr + answer.stdout).strip()[:200]
        raise JavaMissing(f"{path} -version printed {said!r}. {ADVICE}")
    # Up to Java 8, versions start with "1.".
    major = int(found[2] or 0) if found[1] == "1" else int(found[1])
    version = found[0].split('"')[1]
    if major < NEEDED:
        raise JavaMissing(f"{path} is Java {version}, which is too old. {ADVICE}")
    return Java(path, version, major)


def main() -> int:
    """Check for Java before `make pipeline` installs half a gigabyte; return 0 if found, else 1."""
    try:
        java = find_java()
    except JavaMissing as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Java {java.version}, {java.path}")
    return 0
