"""Writes timestamped records to one partition at a steady pace.

    python -m benchmarks.feeder BOOTSTRAP TOPIC PARTITION RECORDS PACE SIZE

The feeder runs in its own process, so its CPU does not count as the reader's. It uses librdkafka
with linger 0, so that it is the same for every reader.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import time

from .work import Work, values

FED = 1
"""Partition that the feeder writes to; partition 0 may hold a backlog."""

_AT = struct.Struct("d")


def stamp(value: bytes) -> bytes:
    """Replace the first bytes of a value with the machine's monotonic time in seconds."""
    return _AT.pack(time.monotonic()) + value[_AT.size :]


def age(value: bytes) -> float:
    """Return the seconds since any process of this machine stamped the value."""
    made: float = _AT.unpack_from(value)[0]
    return time.monotonic() - made


def start(work: Work, records: int) -> subprocess.Popen[bytes]:
    """Start a process that writes `records` records, `work.pace` per second."""
    arguments = [work.bootstrap, work.topic, str(FED), str(records), str(work.pace), str(work.size)]
    return subprocess.Popen([sys.executable, "-m", "benchmarks.feeder", *arguments])


def main() -> None:
    bootstrap, topic, *numbers = sys.argv[1:]
    partition, records, pace, size = map(int, numbers)
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    pool = values(size)
    # Otherwise, the first records would wait for the metadata and then arrive in a burst.
    producer.list_topics(topic, timeout=10)
    began = time.monotonic()
    sent = 0
    while sent < records:
        due = min(int((time.monotonic() - began) * pace) + 1, records)
        for i in range(sent, due):
            producer.produce(topic, stamp(pool[i % 1000]), partition=partition)
        sent = due
        producer.poll(0)
        time.sleep(0.001)
    producer.flush(10)


if __name__ == "__main__":
    main()
