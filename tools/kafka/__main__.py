"""Runs a real Kafka in the foreground until Ctrl-C, for example `python -m tools.kafka --nodes 3`.

The bootstrap address is the only line on standard output, so that a script can read it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from typing import Final

from tools.kafka import jars
from tools.kafka.broker import BrokerFailed
from tools.kafka.cluster import KafkaCluster
from tools.kafka.releases import NEWEST

_TICK: Final = 0.5
"""Seconds of one wait. Python runs a signal's handler before or after a wait: one that arrives just
before `signal.pause` would have no effect."""


def main() -> int:
    """Start a cluster, print its address, and wait for a signal."""
    parser = argparse.ArgumentParser(prog="python -m tools.kafka", description=__doc__)
    parser.add_argument("--version", default=NEWEST, help="Kafka release (default: %(default)s)")
    parser.add_argument("--nodes", type=int, default=1, help="number of brokers")
    parser.add_argument("--port", type=int, help="port of the first broker (default: a free one)")
    parser.add_argument("--heap", default="400m", help="heap of each broker (default: %(default)s)")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    try:
        with KafkaCluster(
            asked.version, asked.nodes, port=asked.port, heap=asked.heap, quick=False
        ) as cluster:
            try:  # a script may send the signal as soon as it has read the address
                print(
                    f"Kafka {cluster.version} is up after {time.monotonic() - began:.1f} s; "
                    f"logs in {cluster.folder}; Ctrl-C stops it",
                    file=sys.stderr,
                )
                print(cluster.bootstrap_servers, flush=True)
                while True:
                    time.sleep(_TICK)
            except KeyboardInterrupt:
                pass  # the normal way to end
    except (BrokerFailed, jars.KafkaNotAvailable, ValueError) as error:
        print(f"tools.kafka: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
