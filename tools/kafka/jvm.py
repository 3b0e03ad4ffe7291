"""The flags of the JVMs that the test harness starts, and class archives to start them faster.

A test's broker lives for seconds, on few cores. With one compiler tier and the archive, it takes
1.4 s of CPU until it responds rather than 3.9 s, and a Java reader or writer takes 0.8 s rather
than 1.8 s. Measurements need the optimizing compiler: `quick=False`.

`python -m tools.kafka.archive` makes the archives. Without them everything works, but starts later.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tools.kafka import jars


def options(version: str, *, quick: bool = True, archived: bool = True) -> list[str]:
    """The JVM flags for a program on a release's class path.

    Args:
        version: The release.
        quick: Optimize for startup time, not speed.
        archived: Use the class archive, if it exists.
    """
    flags = ["-XX:+UseSerialGC", "-Djava.awt.headless=true"]
    if quick:
        flags.append("-XX:TieredStopAtLevel=1")
    made = archive(version)
    if archived and made.is_file():
        # The JVM ignores an archive that does not match its version or jars.
        flags += [f"-XX:SharedArchiveFile={made}", "-Xshare:auto", "-Xlog:disable"]
    return flags


def archive(version: str) -> Path:
    """The path of a release's class archive, which may not exist."""
    named = f"{os.path.realpath(jars.java())} {jars.class_path(version)}"
    digest = hashlib.sha256(named.encode()).hexdigest()[:10]
    return jars.cache_dir() / f"kafka-{version}-{digest}.jsa"
