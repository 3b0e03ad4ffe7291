"""Reads the schemas from the kafka-clients jars, through Maven's local repository.

Two releases are read. The newest has the newest versions of every API. 4.0 dropped the versions
that only brokers before 2.1 need, so those come from the last 3.x release.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

from tools.kafka.jars import maven_environment

NEWEST = "4.4.0"
OLDEST = "3.9.2"
RELEASES = (NEWEST, OLDEST)


class JarsUnavailable(RuntimeError):
    """A jar is not cached, and Maven cannot fetch it."""


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "aiokafka_lite" / "jars"


def maven_copy(group: str, artifact: str, version: str) -> Path:
    """One jar, copied from Maven's local repository, which downloads it the first time."""
    target = cache_directory() / f"{artifact}-{version}.jar"
    if target.exists():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsUnavailable(f"{target.name} is not cached, and there is no Maven (mvn)")
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *(maven, "-q", "-B", "dependency:copy"),
        f"-Dartifact={group}:{artifact}:{version}",
        f"-DoutputDirectory={target.parent}",
    ]
    run = subprocess.run(
        command, env=maven_environment(), capture_output=True, text=True, check=False
    )
    if run.returncode != 0 or not target.exists():
        raise JarsUnavailable(f"Maven could not fetch {target.name}:\n{run.stdout}{run.stderr}")
    return target


def clients_jar(release: str) -> Path:
    return maven_copy("org.apache.kafka", "kafka-clients", release)


def read_schemas(release: str) -> dict[str, dict[str, Any]]:
    """Every message schema of a release, by name."""
    schemas: dict[str, dict[str, Any]] = {}
    with zipfile.ZipFile(clients_jar(release)) as jar:
        for name in jar.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                schema = json.loads(strip_comments(jar.read(name).decode()))
                schemas[schema["name"]] = schema
    return schemas


def strip_comments(text: str) -> str:
    """JSON without Kafka's // comments."""
    lines = []
    for line in text.splitlines():
        quoted = False
        for index, character in enumerate(line):
            if character == '"':
                quoted = not quoted
            elif not quoted and line.startswith("//", index):
                line = line[:index]
                break
        lines.append(line)
    return "\n".join(lines)
