"""The judged exactly-once run: the processes of a group read, process and write millions of records
on three real brokers, while both are killed, paused and superseded. At the end, Java's console
consumer reads the output with read_committed. Each input's output appears exactly once, and the
outputs of a key are in order. Every transaction is stored as a whole or not at all, as reported to
its process, and no process whose transactional id was taken over commits anything.

`make chaos-transactions SEED=7 RECORDS=5000000 MINUTES=5 VERSION=3.9.2 PROTOCOL=cooperative` sets
the number of records, the minutes of faults, the Kafka release and the group protocol.
CHAOS_OUTAGES=1 stops whole clusters for longer than the session, CHAOS_API=hand or once chooses
between a hand-written loop and `exactly_once`, CHAOS_STATIC=1 makes the members static. `make
chaos-exactly-once` draws all of these at random for many short runs.
"""

import asyncio
import os
import time
from pathlib import Path

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.faults.exactly_once_fleet import FLEET_FAULTS, ProcessorFleet, write_numbers
from tests.faults.exactly_once_ledger import OutputLedger, console, lines
from tests.faults.exactly_once_processor import Plan
from tests.faults.schedule import Happenings, cluster_faults, play
from tests.faults.stages import DURABLE, Real
from tools.kafka import NEWEST, KafkaCluster

SEED = int(os.environ.get("CHAOS_SEED", "1"))
MINUTES = float(os.environ.get("CHAOS_MINUTES", "0.4"))
RECORDS = int(os.environ.get("CHAOS_RECORDS", "60000"))
VERSION = os.environ.get("CHAOS_VERSION", NEWEST)
PROTOCOL = os.environ.get("CHAOS_PROTOCOL", "cooperative" if VERSION < "4" else "consumer")
PROCESSES = int(os.environ.get("CHAOS_PROCESSES", "4"))
API = os.environ.get("CHAOS_API", "")
STATIC = os.environ.get("CHAOS_STATIC", "") == "1"
OUTAGES = os.environ.get("CHAOS_OUTAGES", "") == "1"

SOURCE, SINK, GROUP = "input", "output", "processors"
PARTITIONS = {SOURCE: 12, SINK: 8}
KEYS = [b"key-%d" % number for number in range(500)]
EACH = RECORDS // len(KEYS)
SECONDS = MINUTES * 60
SESSION = 6.0  # seconds
# Maximum seconds of a fault. An outage must outlast the session, and sometimes two of them.
LONGEST = 2.5 * SESSION if OUTAGES else min(8.0, SECONDS / 6)
PEACE = min(12.0, SECONDS / 8)  # seconds after it, at most
CATCH_UP = 600 + SECONDS  # seconds without further faults, on a busy machine
READING = 120 + RECORDS / 5_000  # seconds that Java may take for all

BROKER_FAULTS: tuple[str, ...] = (
    "kill",
    "freeze",
    "kill",
    "restart",
    "kill",
    "lead_elsewhere",
    "move_coordinators",
)
if OUTAGES:
    BROKER_FAULTS = ("outage", "kill_for_long", "freeze_all", "outage", "freeze", "restart")
if tuple(map(int, VERSION.split("."))) < (3, 6):
    # These brokers do not ask the coordinator first (KIP-890, part 1): a request that still waits
    # in a paused broker's socket is written after its transaction was aborted, and no marker
    # follows.
    BROKER_FAULTS = tuple(each for each in BROKER_FAULTS if "freeze" not in each)
# Two processes that share a `group_instance_id` would fence each other endlessly.
PROCESS_FAULTS = tuple(each for each in FLEET_FAULTS if not (STATIC and each == "supersede"))
CONFIG = {
    **DURABLE,
    "broker.session.timeout.ms": 4000,
    "group.consumer.session.timeout.ms": int(SESSION * 1000),
    "group.consumer.min.session.timeout.ms": int(SESSION * 1000),
    "group.consumer.heartbeat.interval.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 1000,
}

pytestmark = [
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.timeout(SECONDS + CATCH_UP + 2 * READING + 300),
]


class Progress:
    """The group's progress.

    Args:
        bootstrap: The cluster's address.
    """

    def __init__(self, bootstrap: str) -> None:
        self._places = [TopicPartition(SOURCE, number) for number in range(PARTITIONS[SOURCE])]
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=GROUP, enable_auto_commit=False
        )

    async def __aenter__(self) -> "Progress":
        await self._consumer.start()
        self._consumer.assign(self._places)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()

    async def written(self) -> int:
        ends = await self._consumer.end_offsets(self._places)
        return sum(ends.values())

    async def processed(self) -> int:
        return sum([await self._consumer.committed(place) or 0 for place in self._places])


async def play_out(
    stage: Real, fleet: ProcessorFleet, bootstrap: str, happenings: Happenings
) -> None:
    """Cause faults while the inputs are written, then wait until all are processed.

    Raises:
        AssertionError: They were not processed in time, or a process ended in a way that it may
        not.
    """
    trouble_ends, end = asyncio.Event(), asyncio.Event()
    async with Progress(bootstrap) as progress, asyncio.TaskGroup() as group:
        group.create_task(fleet.tend(end))
        faults = [
            group.create_task(play(on, drawn, trouble_ends, happenings))
            for on, drawn in (
                (stage, cluster_faults(SEED, stage.kafka.node_ids, LONGEST, PEACE, BROKER_FAULTS)),
                (fleet, cluster_faults(SEED + 1, fleet.nodes, LONGEST, PEACE, PROCESS_FAULTS)),
            )
        ]
        await write_numbers(bootstrap, SOURCE, KEYS, EACH, SECONDS)
        trouble_ends.set()
        await asyncio.gather(*faults)
        assert await progress.written() == EACH * len(KEYS), "the load is not what it should be"
        processed = await progress.processed()
        happenings.tell(f"{processed} were processed in trouble; peace from now on")
        deadline = time.monotonic() + CATCH_UP
        while (processed := await progress.processed()) < EACH * len(KEYS):
            assert time.monotonic() < deadline, f"only {processed} are processed"
            await asyncio.sleep(0.5)
        happenings.tell("all are processed")
        end.set()


async def settle(bootstrap: str, count: int) -> None:
    """Abort the transaction that was left open, as a successor does."""
    for number in range(count):
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=f"processor-{number}"
        ):
            pass


async def process_all(stage: Real, folder: Path, happenings: Happenings) -> list[str]:
    """Create the topics, process all inputs, and read the outputs; return the problems.

    Raises:
        AssertionError: Not all inputs were processed, or a process ended that should not have.
    """
    bootstrap, ledger = stage.bootstrap_servers, OutputLedger()
    for topic, partitions in PARTITIONS.items():
        await asyncio.to_thread(stage.kafka.create_topic, topic, partitions)
    plan = Plan(
        bootstrap,
        *("", "", SOURCE, SINK, GROUP, PROTOCOL, SESSION),
        seed=str(SEED),
        journal="",
        api=API,
        static=STATIC,
    )
    stage.topics = [SOURCE, SINK]
    fleet = ProcessorFleet(plan, folder, PROCESSES)
    try:
        fleet.start()
        await play_out(stage, fleet, bootstrap, happenings)
        await fleet.end()
    finally:
        fleet.kill_all()
    await settle(bootstrap, PROCESSES)
    output = folder / "output"
    await console(bootstrap, SINK, output, READING)
    happenings.tell("the console consumer has read the output")
    await asyncio.to_thread(ledger.take, lines(output))
    output.unlink()
    told = fleet.transactions()
    happenings.tell(
        f"{ledger.count} outputs, {dict(happenings.count)}, {dict(fleet.events)}, "
        f"{dict(told.events)}"
    )
    wrong = [*told.mistakes, *ledger.judge(KEYS, EACH), *told.judge(ledger.seen)]
    if told.events["committed"] + told.events["commits"] <= 10:
        wrong.append(f"too few transactions: {told.events}")
    return wrong


async def test_output_of_each_input_is_stored_once_and_in_order(tmp_path: Path) -> None:
    print(f"\nKafka {VERSION}, seed {SEED}, {RECORDS} records, {MINUTES:g} minutes, {PROTOCOL}")
    happenings = Happenings()
    with KafkaCluster(VERSION, nodes=3, config=CONFIG, heap="256m") as kafka:
        happenings.tell("the brokers are up")
        wrong = await process_all(Real(kafka, [], SEED), tmp_path, happenings)
    assert not wrong, "\n".join([f"{len(wrong)} in all", *wrong[:60]])
    assert happenings.count.total() > 3
