"""Kafka's jars, resolved once by Maven and kept in a cache outside of the repository.

The cache is `$AIOKAFKA_LITE_CACHE`, or `~/.cache/aiokafka_lite`. Each release has a folder named
after its version and a hash of its artifacts, so that a changed pin is resolved again. Processes
that need the same release at the same time wait for the one that resolves it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from tools.kafka.releases import FALLBACK, NEWEST, Artifact, release

MINIMUM_JAVA = 17
"""The oldest Java that runs Kafka 4."""

QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM flags that halve the CPU of a program that runs for seconds, such as Maven and javac."""

_RESOLVE_TIMEOUT = 600.0  # seconds; for a cold registry and a slow network

# Dependencies of log4j 1.2.15 that Maven Central lacks and no broker needs: JMX tools and JMS.
_UNAVAILABLE = (
    ("com.sun.jmx", "jmxri"),
    ("com.sun.jdmk", "jmxtools"),
    ("javax.jms", "jms"),
    ("javax.mail", "mail"),
)


class KafkaNotAvailable(RuntimeError):
    """No real Kafka is available on this machine; the message names what is missing."""


def cache_dir() -> Path:
    """The folder of the cache, created if needed."""
    named = os.environ.get("AIOKAFKA_LITE_CACHE")
    folder = Path(named) if named else Path.home() / ".cache" / "aiokafka_lite"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold a lock shared by all processes that use this cache; it ends with its process."""
    with (cache_dir() / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@functools.cache
def java() -> str:
    """The path of a Java that can run Kafka.

    Raises:
        KafkaNotAvailable: There is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    path = (shutil.which("java", path=f"{home}/bin") if home else None) or shutil.which("java")
    if path is None:
        raise KafkaNotAvailable("Java is not installed (no `java` on the PATH)")
    answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60)
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if answer.returncode or found is None:
        raise KafkaNotAvailable(f"`{path} -version` failed: {answer.stderr.strip()[:200]}")
    if int(found[1]) < MINIMUM_JAVA:
        raise KafkaNotAvailable(f"Java {found[1]} is too old: Kafka needs {MINIMUM_JAVA}")
    return path


def missing() -> str | None:
    """Why no jars are available here, or None. Checks only for programs; uses no registry."""
    try:
        java()
    except KafkaNotAvailable as error:
        return str(error)
    if shutil.which("mvn") is None and not _folder(NEWEST).is_dir():
        return "Maven is not installed (no `mvn` on the PATH)"
    return None


def resolve(version: str = NEWEST) -> Path:
    """The folder with the jars of one Kafka release: broker, clients and command-line tools.

    Raises:
        KafkaNotAvailable: Maven is missing or cannot resolve the release.
        ValueError: The harness does not know the release.
    """
    folder = _folder(version)
    if folder.is_dir():
        return folder
    with lock("maven"):
        if not folder.is_dir():
            _copy_dependencies(_pom(version), folder, f"Kafka {version}")
    return folder


def resolve_newest() -> str:
    """The newest available release, with its jars resolved: 4.4.0, or with a warning 4.3.1."""
    try:
        resolve(NEWEST)
    except KafkaNotAvailable as error:
        if shutil.which("mvn") is None:
            raise
        print(f"tools.kafka: {error}; falling back to {FALLBACK}", file=sys.stderr)
        resolve(FALLBACK)
        return FALLBACK
    return NEWEST


def resolve_artifact(group: str, name: str, version: str) -> Path:
    """The path of one jar, without its dependencies.

    Raises:
        KafkaNotAvailable: Maven is missing or cannot resolve the jar.
    """
    folder = cache_dir() / "artifacts" / f"{name}-{version}"
    jar = folder / f"{name}-{version}.jar"
    if not jar.is_file():
        with lock("maven"):
            if not jar.is_file():
                wanted = _project([Artifact(group, name, version, alone=True)], [])
                _copy_dependencies(wanted, folder, f"{group}:{name}:{version}")
    return jar


def maven_environment() -> dict[str, str]:
    """The environment for Maven: with `QUICK`, unless the environment has options for its JVM."""
    return {"MAVEN_OPTS": " ".join(QUICK), **os.environ}


def class_path(version: str = NEWEST) -> str:
    """The class path of all jars of a release, for `java -cp`."""
    return f"{resolve(version)}/*"


def _folder(version: str) -> Path:
    digest = hashlib.sha256(_pom(version).encode()).hexdigest()[:10]
    return cache_dir() / "jars" / f"kafka-{version}-{digest}"


def _pom(version: str) -> str:
    wanted = release(version)
    return _project([wanted.broker, *wanted.extra], wanted.pins)


def _project(wanted: Iterable[Artifact], pins: Iterable[Artifact]) -> str:
    """A Maven project that depends on these artifacts only."""
    unavailable = "".join(_exclusion(group, name) for group, name in _UNAVAILABLE)
    dependencies = "".join(
        _dependency(artifact, _exclusion("*", "*") if artifact.alone else unavailable)
        for artifact in wanted
    )
    pinned = "".join(_dependency(artifact, "") for artifact in pins)
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0">'
        "<modelVersion>4.0.0</modelVersion>"
        "<groupId>aiokafka_lite</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencyManagement><dependencies>{pinned}</dependencies></dependencyManagement>"
        f"<dependencies>{dependencies}</dependencies>"
        "</project>"
    )


def _dependency(artifact: Artifact, exclusions: str) -> str:
    return (
        f"<dependency><groupId>{escape(artifact.group)}</groupId>"
        f"<artifactId>{escape(artifact.name)}</artifactId>"
        f"<version>{escape(artifact.version)}</version>"
        f"<exclusions>{exclusions}</exclusions></dependency>"
    )


def _exclusion(group: str, name: str) -> str:
    return f"<exclusion><groupId>{group}</groupId><artifactId>{name}</artifactId></exclusion>"


def _copy_dependencies(pom: str, folder: Path, what: str) -> None:
    """Let Maven copy the jars of `pom` into `folder`, which is created atomically."""
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaNotAvailable("Maven is not installed (no `mvn` on the PATH)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="resolving-", dir=folder.parent) as scratch:
        (Path(scratch) / "pom.xml").write_text(pom)
        command = [maven, "-q", "-B", "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", "-DoutputDirectory=jars"]
        try:
            done = subprocess.run(
                command,
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                env=maven_environment(),
                capture_output=True,
                text=True,
                timeout=_RESOLVE_TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            raise KafkaNotAvailable(
                f"Maven did not resolve {what} within {_RESOLVE_TIMEOUT:.0f} s"
            ) from None
        if done.returncode:
            error = re.search(r"\[ERROR\] (.*)", done.stdout + done.stderr)
            reason = error[1].strip() if error else f"exit status {done.returncode}"
            raise KafkaNotAvailable(f"Maven could not resolve {what}: {reason[:400]}")
        (Path(scratch) / "jars").rename(folder)
