"""Hours of all workloads on one cluster, in pieces that a later run continues.

    python -m tests.faults.endurance --hours 4 --minutes 15 --seed 1 --output FOLDER

A piece is a cluster of three brokers with some minutes of faults: a producer, a consumer group, an
exactly-once group and a share group run at the same time, each with the ledger of its chaos run,
all kinds of clients on a topic that is deleted and created again, a Spark stream whose driver is
killed, and a service whose memory, descriptors and tasks must not grow. Meanwhile brokers are
killed, stopped and continued, restarted one after the other, deposed, and cut off from clients and
peers; their disks are full; the wall clocks of brokers and of clients jump; coordinators move;
partitions are reassigned; and proxies cut, delay and stall the connections. In every fourth piece
the brokers begin with Kafka 3.9.2, and are upgraded to the newest release in its middle, first
their programs and then their features. The seed determines the faults and the group protocol of
each piece. FOLDER/pieces.jsonl has a line for each piece that ended; the same command continues
after it, and ends with status 1 if a piece failed.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from aiokafka_lite import AIOKafkaAdminClient
from aiokafka_lite.admin import FeatureUpdate
from tests.faults.endurance_lane import COUNTS, FAULTS, LANES
from tests.faults.process_watch import Watch, repeated
from tests.faults.schedule import Fault, Happenings, cluster_faults, play, wire_faults
from tests.faults.stages import Real, real_stage
from tools.kafka import NEWEST
from tools.kafka.process import Child

CHECKPOINT: Final = "pieces.jsonl"
SETTLE: Final = 20.0  # seconds in which the lanes create topics, before the first fault
LONGEST: Final = 12.0  # seconds that a fault lasts at most
PEACE: Final = 15.0  # seconds between two faults at most
AFTER: Final = 1200.0  # seconds that the lanes may take after the last fault
SESSION: Final = 6000  # milliseconds
OLD: Final = "3.9.2"
FEATURES: Final = ("metadata.version", "transaction.version", "group.version", "share.version")
PROTOCOLS: Final = ("cooperative", "consumer", "eager")
CLUSTER: Final = (
    *("kill", "freeze", "lead_elsewhere", "restart", "move_coordinators"),
    *("kill_for_long", "roll", "freeze"),
    *("isolate", "reassign", "fill_disk", "jump_broker", "jump_clients"),
)
HARDWARE: Final = frozenset({"isolate", "fill_disk", "jump_broker", "jump_clients"})
WHOLE_CLUSTER: Final = (
    *("lead_elsewhere", "move_coordinators", "reassign", "roll", "upgrade", "cut", "delay"),
)
RATE: Final = 300  # records per second in each lane
OWN_TOPICS: Final = frozenset({"phoenix"})  # topics that lanes change themselves
CONFIG: Final = {
    "auto.create.topics.enable": False,  # a deleted topic does not exist until it is created again
    "min.insync.replicas": 2,
    "broker.session.timeout.ms": 4000,
    "group.consumer.session.timeout.ms": SESSION,
    "group.consumer.min.session.timeout.ms": SESSION,
    "group.consumer.heartbeat.interval.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 1000,
    "group.share.session.timeout.ms": SESSION,
    "group.share.min.session.timeout.ms": SESSION,
    "group.share.heartbeat.interval.ms": 1000,
    "group.share.min.heartbeat.interval.ms": 1000,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.max.delivery.count.limit": 10,
    # From 4.3 on, a coordinator whose clock is set back computes no assignment until its clock has
    # reached the time of the last one again (KIP-1263). With 0 it does at once.
    "group.consumer.assignment.interval.ms": 0,
    "group.share.assignment.interval.ms": 0,
}


@dataclass
class Piece:
    """One piece, as its line of the checkpoint has it.

    Attributes:
        number: Counted from 0.
        seed: Of its faults and workloads.
        minutes: The minutes of faults.
        protocol: Of the consumer group and the exactly-once group.
        version: The release of the brokers at the beginning.
        lanes: Lane to "passed" or its first problem.
        faults: Number of faults by kind.
        processes: By program: how many there were, and the most KiB, descriptors and threads of
            one.
        wrong: Excessive use of resources or log lines by the processes.
        seconds: Seconds that the whole piece took.
    """

    number: int
    seed: int
    minutes: float
    protocol: str
    version: str
    lanes: dict[str, str] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    processes: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """True if every lane passed, and no resource grew."""
        expected = set(lanes_of(self.version, LANES))
        passed = set(self.lanes) == expected and set(self.lanes.values()) == {"passed"}
        return passed and not self.wrong


def lanes_of(version: str, lanes: Sequence[str]) -> list[str]:
    """The lanes that a release can serve: share groups came after 3.9."""
    return [lane for lane in lanes if lane != "share" or version != OLD]


class Struck:
    """The brokers of a piece: each fault is recorded for the lanes.

    Args:
        stage: The brokers.
        log: The file of faults.
    """

    def __init__(self, stage: Real, log: Path) -> None:
        self._stage, self._log = stage, log

    def __getattr__(self, kind: str) -> Any:
        async def strike(node: int, seconds: float) -> None:
            if kind == "jump_clients":  # strikes no broker, so it explains nothing
                await self._stage.jump_clients(node, seconds)
                return
            begin = time.monotonic_ns()
            try:
                if kind == "roll":
                    await self._roll()
                elif kind == "upgrade":
                    await self._upgrade()
                else:
                    await getattr(self._stage, kind)(node, seconds)
            finally:
                where = -1 if kind in WHOLE_CLUSTER else node
                line = {"node": where, "begin": begin, "end": time.monotonic_ns(), "kind": kind}
                with self._log.open("a") as file:
                    file.write(json.dumps(line) + "\n")

        return strike

    async def _roll(self) -> None:
        """Restart all brokers, one after the other, as an upgrade does."""
        for node in self._stage.kafka.node_ids:
            await self._stage.restart(node, 0.0)
            await asyncio.sleep(2.0)

    async def _upgrade(self) -> None:
        """Upgrade the programs of all brokers, then the levels of the cluster's features."""
        await self._stage.upgrade_all(NEWEST, 3.0)
        async with AIOKafkaAdminClient(bootstrap_servers=self._stage.bootstrap_servers) as admin:
            offered = await admin.describe_features()
            newest = {
                name: FeatureUpdate(each.max_level)
                for name, each in offered.supported.items()
                if name in FEATURES
            }
            (await admin.update_features(newest, timeout_ms=60_000)).raise_for_errors()


def environment(piece: Piece) -> dict[str, str]:
    """The environment variables of the lanes."""
    records = int(RATE * piece.minutes * 60)
    return {
        **os.environ,
        "CHAOS_SEED": str(piece.seed),
        "CHAOS_MINUTES": str(piece.minutes),
        "CHAOS_RECORDS": str(records),
        "CHAOS_RATE": str(RATE),
        "CHAOS_SENDERS": "100",
        "CHAOS_MODES": piece.protocol,
        "CHAOS_PROTOCOL": piece.protocol,
        "CHAOS_PROCESSES": "2",
        "CHAOS_GROUP_PROCESSES": "2",
        "CHAOS_SHARE_PROCESSES": "2",
    }


async def play_piece(piece: Piece, folder: Path, lanes: Sequence[str]) -> None:
    """Play one piece, and fill in its results.

    Args:
        piece: The piece to play.
        folder: For the output of its lanes, and the faults; has a folder for each lane.
        lanes: The workloads.
    """
    began, happenings = time.monotonic(), Happenings()
    watch = Watch(os.getpid())
    watching = asyncio.create_task(watch.run())
    async with real_stage(
        piece.seed, CONFIG, heap="400m", version=piece.version, failing_hardware=True
    ) as stage:
        clock = stage.hardware.clients_clock
        children = {}
        for lane in lanes:
            own = folder / lane
            command = [sys.executable, "-m", "tests.faults.endurance_lane", lane]
            command += [stage.bootstrap_servers, stage.kafka.version, str(own)]
            variables = environment(piece) | (clock.environment if clock else {})
            children[lane] = Child(command, folder / f"{lane}.log", variables)
        try:
            await asyncio.sleep(SETTLE)
            await _trouble(Struck(stage, folder / FAULTS), stage, piece, happenings)
            deadline = time.monotonic() + AFTER
            while any(child.exit_status is None for child in children.values()):
                if time.monotonic() > deadline:
                    break
                await asyncio.sleep(0.5)
            for lane, child in children.items():
                piece.lanes[lane] = _verdict(child)
        finally:
            watching.cancel()
            for child in children.values():
                child.kill()
            for node in stage.kafka.node_ids:
                with contextlib.suppress(OSError):
                    (folder / f"broker-{node}.log").write_text(stage.kafka.log(node))
    await asyncio.wait([watching])
    piece.processes, piece.wrong = watch.summary(), watch.judge() + repeated_lines(folder)
    happenings.count.update(_own_faults(folder))
    piece.faults = dict(happenings.count)
    piece.seconds = round(time.monotonic() - began)


async def _trouble(struck: Struck, stage: Real, piece: Piece, happenings: Happenings) -> None:
    """Faults for the minutes of the piece."""
    nodes = stage.kafka.node_ids
    async with AIOKafkaAdminClient(bootstrap_servers=stage.bootstrap_servers) as admin:
        stage.topics = sorted(set(await admin.list_topics()) - OWN_TOPICS)
    unavailable = HARDWARE - set(stage.hardware.faults)
    if unavailable:
        happenings.tell(f"not possible on this machine: {sorted(unavailable)}")
    kinds = [kind for kind in CLUSTER if kind not in unavailable]
    both = (
        cluster_faults(piece.seed, nodes, LONGEST, PEACE, kinds),
        wire_faults(piece.seed, nodes, LONGEST / 4, PEACE),
    )
    seconds = piece.minutes * 60
    if piece.version != NEWEST:
        await _rounds(struck, both, seconds / 2, happenings)
        happenings.tell(f"upgrade from {piece.version} to {NEWEST}")
        happenings.count["upgrade"] += 1
        await struck.upgrade(0, 0.0)
        happenings.tell("upgrade is over")
        seconds /= 2
    await _rounds(struck, both, seconds, happenings)


async def _rounds(
    struck: Struck, both: Sequence[Iterator[Fault]], seconds: float, happenings: Happenings
) -> None:
    end = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for faults in both:
            group.create_task(play(struck, faults, end, happenings))
        await asyncio.sleep(seconds)
        end.set()


def repeated_lines(folder: Path) -> list[str]:
    """The messages that processes of the lanes have logged too often."""
    wrong = []
    for log in sorted(folder.glob("**/*.log")):
        if not log.name.startswith("broker-"):
            with log.open(errors="replace") as file:
                wrong += [f"{log.relative_to(folder)}: {each}" for each in repeated(file)]
    return wrong


def _own_faults(folder: Path) -> Counter[str]:
    """The faults that the lanes caused themselves."""
    found: Counter[str] = Counter()
    for path in folder.glob(f"*/{COUNTS}"):
        found.update(json.loads(path.read_text()))
    return found


def _verdict(child: Child) -> str:
    if child.exit_status is None:
        return f"did not end within {AFTER:.0f} s"
    if child.exit_status == 0:
        return "passed"
    lines = child.tail(400).splitlines()
    wrong = [line for line in lines if line.startswith("WRONG")] or lines[-1:]
    return f"exit status {child.exit_status}: {wrong[0][:300] if wrong else ''}"


def draw(seed: int, number: int, minutes: float) -> Piece:
    """A piece of a seed."""
    chance = random.Random(f"endurance {seed} {number}")
    version = OLD if number % 4 == 3 else NEWEST
    protocol = PROTOCOLS[number % len(PROTOCOLS)]
    if version == OLD and protocol == "consumer":
        protocol = "cooperative"
    return Piece(number, chance.randrange(1, 10**6), minutes, protocol, version)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; see the module docstring."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.endurance")
    parser.add_argument("--hours", type=float, default=4.0, help="of trouble, in all pieces")
    parser.add_argument("--minutes", type=float, default=15.0, help="of trouble in one piece")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn")
    parser.add_argument("--output", type=Path, required=True, help="folder; continues there")
    parser.add_argument("--lanes", default=",".join(LANES), help="workloads, separated by commas")
    parser.add_argument("--pieces", type=int, help="end after so many pieces in this run")
    given = parser.parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    checkpoint = given.output / CHECKPOINT
    ended = []
    if checkpoint.exists():
        ended = [Piece(**json.loads(line)) for line in checkpoint.read_text().splitlines()]
    count = -(-given.hours * 60 // given.minutes)
    played = 0
    while len(ended) < count and played != given.pieces:
        piece = draw(given.seed, len(ended), given.minutes)
        print(
            f"piece {piece.number} of {count:.0f}, seed {piece.seed}, {piece.protocol}", flush=True
        )
        folder = given.output / f"piece-{piece.number:03}"
        shutil.rmtree(folder, ignore_errors=True)  # of a piece that was interrupted
        lanes = lanes_of(piece.version, given.lanes.split(","))
        for lane in lanes:
            (folder / lane).mkdir(parents=True)
        asyncio.run(play_piece(piece, folder, lanes))
        with checkpoint.open("a") as file:
            file.write(json.dumps(asdict(piece)) + "\n")
        ended.append(piece)
        played += 1
        print(f"    {piece.lanes}, {piece.faults}, {piece.seconds:.0f} s", flush=True)
        print(f"    {piece.processes}")
        for each in piece.wrong:
            print(f"    WRONG: {each}")
    kinds = sum((Counter(piece.faults) for piece in ended), Counter[str]())
    minutes = sum(piece.minutes for piece in ended)
    failed = [piece.number for piece in ended if not piece.passed]
    print(f"{len(ended)} pieces, {minutes:.0f} minutes of trouble, faults {dict(kinds)}")
    print(f"{len(ended) - len(failed)} passed, {len(failed)} failed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
