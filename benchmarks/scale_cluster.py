"""Simulates a cluster of many brokers and partitions in its own process, for `benchmarks.scale`.

    python -m benchmarks.scale_cluster BROKERS TOPICS PARTITIONS_OF_A_TOPIC

Prints the bootstrap servers (at most three), then answers each line of standard input:

    write COUNT PARTITIONS   append records to the first partitions of topic-0; "ok"
    move COUNT               move the leaders of the first partitions to the next broker; "ok"
    cpu                      seconds of CPU that this process has used
"""

from __future__ import annotations

import asyncio
import sys
import time

from aiokafka_lite.testing import FakeCluster


def write(cluster: FakeCluster, count: int, partitions: int) -> None:
    for number in range(count):
        cluster.produce("topic-0", b"x" * 100, partition=number % partitions)


def move(cluster: FakeCluster, count: int) -> None:
    """Move leaders in one update, as a controller does when brokers restart."""
    brokers = len(cluster.state.nodes)
    for topic in cluster.state.topics.values():
        for number, partition in enumerate(topic.partitions):
            if not count:
                return
            leader = partition.leader
            cluster.move_leader(topic.name, number, (leader + 1) % brokers)
            count -= 1


async def main() -> None:
    brokers, topics, partitions = map(int, sys.argv[1:])
    loop = asyncio.get_running_loop()
    cluster = FakeCluster(brokers, {f"topic-{number}": partitions for number in range(topics)})
    async with cluster:
        print(",".join(cluster.bootstrap_servers.split(",")[:3]), flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command, *numbers = line.split()
            if command == "write":
                write(cluster, *map(int, numbers))
            elif command == "move":
                move(cluster, *map(int, numbers))
            print(time.process_time() if command == "cpu" else "ok", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
