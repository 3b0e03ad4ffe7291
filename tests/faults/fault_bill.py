"""The cost of each fault: how long records stop flowing, compared for three clients.

    python -m tests.faults.fault_bill --repeats 5 --seed 1 --output FOLDER

Three real brokers lead a partition each of a topic. A process of each client (aiokafka_lite,
aiokafka, and confluent-kafka) produces to all partitions and consumes them as the member of a
group; all groups have the same coordinator. Then faults hit one broker after the other, and all
clients at the same time. The measured value is the interruption: the longest time, in any
partition, in which no record was both acknowledged and consumed. Between two faults, the brokers
recover, and lead the same partitions again.

FOLDER/bill.jsonl has a line for each fault; the same command continues after it. The table at the
end has the median of each fault and client, in seconds. A client whose records do not flow again
within `PATIENCE` is replaced by a new process.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from aiokafka_lite import AIOKafkaAdminClient, TopicPartition
from aiokafka_lite.admin import ElectionType, NewTopic, TopicPartitionReplica
from aiokafka_lite.errors import KafkaError, TopicAlreadyExistsError
from tests.faults.bill_client import CLIENTS, PARTITIONS
from tests.faults.stages import Real, real_stage
from tools.kafka.process import Child

__all__ = ["FAULTS", "Line", "interruption", "table"]

FAULTS: Final[Mapping[str, tuple[str, float]]] = {
    "a broker is killed, and restarts later": ("kill_for_long", 15.0),
    "a broker restarts in order": ("restart", 0.0),
    "all brokers restart in order, one by one": ("roll", 0.0),
    "a broker is stopped (SIGSTOP)": ("freeze", 70.0),
    "a broker is cut off from clients and brokers": ("isolate", 70.0),
    "the network to a broker hangs, for clients only": ("stall", 15.0),
    "all connections break": ("cut_now", 0.0),
    "leaders move": ("lead_elsewhere", 0.0),
    "coordinators move": ("move_coordinator", 0.0),
    "replicas are reassigned": ("reassign", 2.0),
    "a disk of a broker is full": ("fill_disk", 10.0),
    "all brokers are killed, and restart": ("outage", 5.0),
    "the topic is deleted, and created again": ("recreate", 2.0),
}
"""The faults: the method of the stage, and the number of seconds."""
CALM: Final = 3.0  # seconds in which records flow everywhere, before and after a fault
SMOOTH: Final = 1.0  # seconds between two records of a partition, at most, where they flow
PATIENCE: Final = 90.0  # seconds until records flow again
RECOVERY: Final = 240.0  # seconds until all replicas are in sync
TOPIC: Final = "bill"
START: Final = 60.0  # seconds that the clients may take to start
CONFIG: Final = {
    "min.insync.replicas": 2,
    "auto.create.topics.enable": False,
    "auto.leader.rebalance.enable": False,
}
SECOND: Final = 1_000_000_000  # nanoseconds


@dataclass(frozen=True)
class Line:
    """One fault.

    Attributes:
        fault: A key of `FAULTS`.
        node: The affected broker.
        repeat: Counted from 0.
        seconds: The interruption of each client.
    """

    fault: str
    node: int
    repeat: int
    seconds: dict[str, float]


def interruption(flows: Iterable[tuple[int, int]], begin: int, end: int) -> float:
    """The longest time between two records of any partition, in seconds.

    Args:
        flows: Partition and time of each record that arrived, by time.
        begin: Nanoseconds; the time before it does not count.
        end: Nanoseconds; a partition whose records have not arrived by then is interrupted.
    """
    longest, latest = 0, dict.fromkeys(range(PARTITIONS), begin)
    for partition, at in flows:
        if at > end:
            break
        if at > begin:
            longest = max(longest, at - latest[partition])
            latest[partition] = at
    return max(longest, *(end - at for at in latest.values())) / SECOND


def table(lines: Sequence[Line]) -> str:
    """The medians as a Markdown table, the shortest of each row in bold."""
    rows = ["| fault | " + " | ".join(CLIENTS) + " | runs |", "|---|---|---|---|---|"]
    for fault in FAULTS:
        found = [line for line in lines if line.fault == fault]
        if not found:
            continue
        middle = {
            client: statistics.median(line.seconds[client] for line in found) for client in CLIENTS
        }
        best = min(middle.values())
        cells = [
            f"**{middle[client]:.2f}**" if middle[client] == best else f"{middle[client]:.2f}"
            for client in CLIENTS
        ]
        rows.append(f"| {fault} | {' | '.join(cells)} | {len(found)} |")
    return "\n".join(rows)


class Bill:
    """The cluster, its clients and their journals.

    Args:
        stage: The brokers.
        folder: For journals and logs.
    """

    def __init__(self, stage: Real, folder: Path) -> None:
        self._stage, self._folder = stage, folder
        self._children: dict[str, Child] = {}
        self._read: dict[str, int] = {}
        self.flows: dict[str, list[tuple[int, int]]] = {client: [] for client in CLIENTS}
        self._admin = AIOKafkaAdminClient(bootstrap_servers=stage.bootstrap_servers)

    async def __aenter__(self) -> "Bill":
        await self._admin.start()
        await self._create()
        self._stage.topics = [TOPIC]
        for client in CLIENTS:
            self._launch(client)
        return self

    def _launch(self, client: str) -> None:
        journal = self._folder / f"{client}.journal"
        journal.unlink(missing_ok=True)
        self._read[client] = 0
        command = [sys.executable, "-m", "tests.faults.bill_client", client]
        command += [self._stage.bootstrap_servers, TOPIC, group_of(client), str(journal)]
        self._children[client] = Child(command, self._folder / f"{client}.log")

    async def __aexit__(self, *_: object) -> None:
        for child in self._children.values():
            child.kill()
        await self._admin.close()

    async def _create(self) -> None:
        nodes = self._stage.kafka.node_ids
        assigned = {p: [*nodes[p:], *nodes[:p]] for p in range(PARTITIONS)}
        new = NewTopic(TOPIC, replica_assignments=assigned)
        (await self._admin.create_topics([new])).raise_for_errors()

    async def _place_on_disks(self) -> None:
        """Move the replicas of the leaders to the disks that can be full."""
        moves = {
            TopicPartitionReplica(TOPIC, node, node): str(disk.folder)
            for node, disk in self._stage.hardware.disks.items()
        }
        if not moves:
            return
        (await self._admin.alter_replica_log_dirs(moves)).raise_for_errors()
        deadline = time.monotonic() + RECOVERY
        while True:
            found = await self._admin.describe_replica_log_dirs(list(moves))
            places = found.raise_for_errors()
            if all(places[replica].current_dir == path for replica, path in moves.items()):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the replicas did not move: {places}")
            await asyncio.sleep(0.5)

    def look(self) -> None:
        """Read the records that have arrived since."""
        for client in CLIENTS:
            path = self._folder / f"{client}.journal"
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(self._read.get(client, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read[client] = self._read.get(client, 0) + len(whole)
            for line in whole.splitlines():
                partition, at = line.split()
                self.flows[client].append((int(partition), int(at)))

    async def until_calm(self, since: int, patience: float) -> int:
        """Wait until all clients' records flow, at most for `patience`; return the time.

        Args:
            since: Nanoseconds.
            patience: Seconds.
        """
        deadline = time.monotonic() + patience
        while True:
            self.look()
            now = time.monotonic_ns()
            begin = max(since, now - int(CALM * SECOND))
            rough = {client: interruption(self.flows[client], begin, now) for client in CLIENTS}
            waited = now - since >= CALM * SECOND
            if (waited and max(rough.values()) < SMOOTH) or time.monotonic() > deadline:
                return now
            await asyncio.sleep(0.2)

    async def strike(self, fault: str, node: int, repeat: int) -> Line:
        """Inject a fault, and measure it."""
        await self._recover()
        if FAULTS[fault][0] == "fill_disk":
            await self._place_on_disks()
        await self.until_calm(time.monotonic_ns(), START)
        kind, seconds = FAULTS[fault]
        begin = time.monotonic_ns()
        own = getattr(self, f"_{kind}", None) or getattr(self._stage, kind)
        await own(node, seconds)
        end = await self.until_calm(time.monotonic_ns(), PATIENCE)
        found = {
            client: round(interruption(self.flows[client], begin, end), 3) for client in CLIENTS
        }
        for client, flows in self.flows.items():
            if interruption(flows, end - int(CALM * SECOND), end) > SMOOTH:
                self._children[client].kill()
                self._launch(client)
            del flows[: -10 * PARTITIONS]
        return Line(fault, node, repeat, found)

    async def _recover(self) -> None:
        """Wait until all replicas are in sync; elect the preferred leaders."""
        deadline = time.monotonic() + RECOVERY
        nodes = self._stage.kafka.node_ids
        while True:
            try:
                topics = await self._admin.describe_topics(self._stage.topics)
                partitions = [each for topic in topics for each in topic["partitions"]]
                wanted = {}
                for topic in topics:
                    for each in topic["partitions"]:
                        number = each["partition"]
                        replicas = [*nodes[number:], *nodes[:number]]
                        if list(each["replicas"]) != replicas:
                            wanted[TopicPartition(topic["topic"], number)] = replicas
                if wanted:
                    await self._admin.alter_partition_reassignments(wanted)
                elif all(len(each["isr"]) == len(nodes) for each in partitions):
                    if all(each["leader"] == each["partition"] for each in partitions):
                        return
                    await self._admin.elect_leaders(ElectionType.PREFERRED)
            except KafkaError:
                pass  # the next poll shows it
            if time.monotonic() > deadline:
                raise TimeoutError("the brokers did not recover")
            await asyncio.sleep(0.5)

    async def _roll(self, node: int, seconds: float) -> None:
        for each in self._stage.kafka.node_ids:
            await self._stage.restart(each, seconds)
            await asyncio.sleep(3.0)

    async def _cut_now(self, node: int, seconds: float) -> None:
        self._stage.cut_now()

    async def _recreate(self, node: int, seconds: float) -> None:
        (await self._admin.delete_topics([TOPIC])).raise_for_errors()
        await asyncio.sleep(seconds)
        while True:
            try:
                await self._create()
            except TopicAlreadyExistsError:
                await asyncio.sleep(0.1)  # it is being deleted
            else:
                return


def group_of(client: str) -> str:
    """The client's group; all of them have the same coordinator."""
    number = 0
    while java_hash(f"{client}-{number}") % 4 != 0:
        number += 1
    return f"{client}-{number}"


def java_hash(text: str) -> int:
    """`text.hashCode()`, without its sign as `Utils.abs` takes it away."""
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return 0 if signed == -(1 << 31) else abs(signed)


async def run(asked: argparse.Namespace, done: Sequence[Line], checkpoint: Path) -> list[Line]:
    """Inject every fault that is not done yet; return all lines."""
    lines, draw = list(done), random.Random(asked.seed)
    known = {(line.fault, line.repeat) for line in done}
    schedule = []
    for repeat in range(asked.repeats):
        for fault in draw.sample(asked.faults, len(asked.faults)):
            schedule.append((fault, draw.randrange(3), repeat))
    async with (
        real_stage(asked.seed, CONFIG, heap="512m", failing_hardware=True) as stage,
        Bill(stage, asked.output) as bill,
    ):
        stage.closes_ports = True
        await bill.until_calm(time.monotonic_ns(), START)
        for fault, node, repeat in schedule:
            if (fault, repeat) in known:
                continue
            try:
                line = await bill.strike(fault, node, repeat)
            except (KafkaError, TimeoutError) as error:  # the next run repeats it
                print(f"{fault}, broker {node}: could not be done: {error!r}", flush=True)
                continue
            print(f"{fault}, broker {node}: {line.seconds}", flush=True)
            lines.append(line)
            with checkpoint.open("a") as file:
                file.write(json.dumps(asdict(line)) + "\n")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; see the module docstring."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.fault_bill")
    parser.add_argument("--repeats", type=int, default=5, help="of each fault")
    parser.add_argument("--seed", type=int, default=1, help="of the order and the brokers")
    parser.add_argument("--only", default="", help="words of the faults to play, with commas")
    parser.add_argument("--output", type=Path, required=True, help="folder; continues there")
    asked = parser.parse_args(arguments)
    asked.output.mkdir(parents=True, exist_ok=True)
    words = asked.only.split(",")
    asked.faults = [fault for fault in FAULTS if any(word in fault for word in words)]
    checkpoint, done = asked.output / "bill.jsonl", list[Line]()
    if checkpoint.exists():
        done = [Line(**json.loads(line)) for line in checkpoint.read_text().splitlines()]
    for journal in asked.output.glob("*.journal"):
        journal.unlink()  # of an earlier run
    lines: list[Any] = asyncio.run(run(asked, done, checkpoint))
    print(table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
