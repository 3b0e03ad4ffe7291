"""Makes the class archives (CDS) that make Kafka start faster: `python -m tools.kafka.archive`.

This takes some seconds, once; a dozen broker starts save as much. One archive is for the newest
release, and one for the release whose command-line tools the tests run.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.kafka import jars, jvm
from tools.kafka.broker import BrokerFailed
from tools.kafka.cluster import KafkaCluster
from tools.kafka.java import JavaFailed, JavaTools
from tools.kafka.releases import NEWEST

RELEASES = (NEWEST, "3.9.2")


def make(version: str = NEWEST) -> Path:
    """Run a broker briefly and archive the classes that it has loaded.

    Args:
        version: The release.

    Raises:
        KafkaNotAvailable: Java, Maven or the jars are not available.
        BrokerFailed: The broker does not start, or does not write an archive.
    """
    jars.resolve(version)
    target = jvm.archive(version)
    with jars.lock(f"archive-{version}"):
        if target.is_file():
            return target
        half = target.with_suffix(".half")
        half.unlink(missing_ok=True)
        options = [f"-XX:ArchiveClassesAtExit={half}", "-Xlog:disable"]
        with KafkaCluster(version, jvm_options=options) as it:
            it.create_topic("read", 4)
            tools = JavaTools(it.bootstrap_servers)
            tools.generate("read", 4, 1000)
            tools.dump("read")
            it.stop(0)
        if not half.is_file():
            raise BrokerFailed("the broker wrote no class archive when it stopped")
        half.rename(target)
    return target


def main() -> int:
    """Make the archives that do not exist."""
    began = time.monotonic()
    try:
        with ThreadPoolExecutor() as threads:
            archives = list(threads.map(make, RELEASES))
    except (BrokerFailed, JavaFailed, jars.KafkaNotAvailable) as error:
        print(f"tools.kafka.archive: {error}", file=sys.stderr)
        return 1
    for made in archives:
        print(f"{made}: {made.stat().st_size >> 20} MB after {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
