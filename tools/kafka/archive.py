"""Makes the class archive (CDS) that lets Kafka start faster: `python -m tools.kafka.archive`.

It takes some seconds, once; a dozen broker starts save as much.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tools.kafka import jars, jvm
from tools.kafka.broker import BrokerFailed
from tools.kafka.cluster import KafkaCluster
from tools.kafka.java import JavaFailed, JavaTools
from tools.kafka.releases import NEWEST


def make() -> Path:
    """Run a broker briefly and archive the classes that it has loaded.

    Raises:
        KafkaNotAvailable: Java, Maven or the jars are not available.
        BrokerFailed: The broker does not start, or writes no archive.
    """
    jars.resolve(NEWEST)
    target = jvm.archive(NEWEST)
    with jars.lock("archive"):
        if target.is_file():
            return target
        half = target.with_suffix(".half")
        half.unlink(missing_ok=True)
        with KafkaCluster(jvm_options=[f"-XX:ArchiveClassesAtExit={half}", "-Xlog:disable"]) as it:
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
    """Make the archive unless it exists."""
    began = time.monotonic()
    try:
        made = make()
    except (BrokerFailed, JavaFailed, jars.KafkaNotAvailable) as error:
        print(f"tools.kafka.archive: {error}", file=sys.stderr)
        return 1
    print(f"{made}: {made.stat().st_size >> 20} MB in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
