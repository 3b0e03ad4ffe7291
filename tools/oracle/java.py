"""Runs the Java side: a list of requests in, a list of results out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.kafka.jars import QUICK
from tools.protocol_gen.jars import JarsUnavailable, clients_jar, maven_copy

OLDEST_JAVA = 17
JACKSON = "2.16.2"
SOURCE = Path(__file__).with_name("Oracle.java")
SECONDS = 900.0


def class_path(release: str) -> str:
    """The jars that one release's oracle needs.

    Raises:
        JarsUnavailable: They are not cached, and Maven cannot fetch them.
    """
    group = "com.fasterxml.jackson.core"
    jars = [clients_jar(release)]
    for artifact in ("jackson-databind", "jackson-core", "jackson-annotations"):
        jars.append(maven_copy(group, artifact, JACKSON))
    jars.append(maven_copy("org.slf4j", "slf4j-api", "1.7.36"))
    jars.append(maven_copy("org.slf4j", "slf4j-nop", "1.7.36"))
    return os.pathsep.join(str(jar) for jar in jars)


def java() -> str:
    """The java command.

    Raises:
        JarsUnavailable: Java is missing, or too old for Oracle.java.
    """
    command = shutil.which("java")
    if command is None:
        raise JarsUnavailable("Java is not installed")
    output = subprocess.run(
        [command, "-version"], capture_output=True, text=True, check=False
    ).stderr
    found = re.search(r'version "(\d+)', output)
    if found is None or int(found[1]) < OLDEST_JAVA:
        raise JarsUnavailable(f"Java {OLDEST_JAVA} is needed: {' '.join(output.split()[:3])}")
    return command


def ask(release: str, lines: Sequence[str]) -> list[str]:
    """Send lines to one release's client (see Oracle.java), all at once.

    Returns:
        One answer per line: hex, or "! " and a reason.
    """
    if not lines:
        return []
    run = subprocess.run(
        [java(), *QUICK, "-Xmx1g", "-cp", class_path(release), str(SOURCE)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    answers = run.stdout.splitlines()
    if run.returncode != 0 or len(answers) != len(lines):
        raise RuntimeError(
            f"the oracle of {release} gave {len(answers)} answers to {len(lines)} questions:\n"
            f"{run.stderr[-4000:]}"
        )
    return answers
