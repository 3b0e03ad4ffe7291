"""`python -m tools.kafka.archive`: make the archive of classes by which a Kafka starts sooner.

It takes some seconds, once, which a dozen brokers gain back.
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
    """Let a broker live a short life, and write down at its end what it has loaded.

    Raises:
        KafkaNotAvailable: When Java, Maven or the jars cannot be had.
        BrokerFailed: When the broker does not come up, or leaves nothing behind.
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
            raise BrokerFailed("the broker wrote no archive of its classes at its end")
        half.rename(target)
    return target


def main() -> int:
    """Make the archive, unless it is there."""
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
