"""A process that writes records to one partition at a steady pace, each with the time it was made.

    python -m benchmarks.feeder BOOTSTRAP TOPIC PARTITION RECORDS PACE SIZE

It is another process so that the reader's CPU is the reader's, and librdkafka at linger 0, so that
it is the same for every reader.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import time

from .work import Work, values

FED = 1
"""The partition it writes to: 0 may hold a backlog."""

_AT = struct.Struct("d")


def stamp(value: bytes) -> bytes:
    """The value with the time it is made (seconds of the machine's monotonic clock) in front."""
    return _AT.pack(time.monotonic()) + value[_AT.size :]


def age(value: bytes) -> float:
    """Seconds since a value was stamped, by any process of this machine."""
    made: float = _AT.unpack_from(value)[0]
    return time.monotonic() - made


def start(work: Work, records: int) -> subprocess.Popen[bytes]:
    """Begin to write so many records at `work.pace` a second."""
    arguments = [work.bootstrap, work.topic, str(FED), str(records), str(work.pace), str(work.size)]
    return subprocess.Popen([sys.executable, "-m", "benchmarks.feeder", *arguments])


def main() -> None:
    bootstrap, topic, *numbers = sys.argv[1:]
    partition, records, pace, size = map(int, numbers)
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    pool = values(size)
    # The metadata first: a burst of old records is no steady pace.
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
