"""Chaos in a group on three real brokers: every record is read, and no committed one twice.

Four processes with two members each read 24 partitions and a topic that grows, while processes
are killed, stopped past their session and restarted, members leave and rejoin voluntarily, brokers
are killed, paused and deposed, coordinators move and proxies cut, delay and stall the connections.
Each member writes down every record that it receives, every commit and every result; the ledger
judges them at the end. This runs once each with the eager, the cooperative and the consumer
protocol; without CHAOS_MINUTES, for a short time and without the eager one.

CHAOS_SEED repeats a schedule; CHAOS_MINUTES (0.3 by default) is how long records flow, all
protocols together, CHAOS_RECORDS how many; CHAOS_MODES names the protocols, CHAOS_CLIENTS the
packages that the processes use in turn ("aiokafka" alone calibrates the harness; of both,
MODES=eager makes one group). `make chaos-consumer SEED=7 RECORDS=20000000`.
"""

import asyncio
import os
import time
from pathlib import Path

import pytest

from tests.faults.consumer_fleet import FLEET_FAULTS, Fleet, lagging
from tests.faults.consumer_journal import Place
from tests.faults.consumer_ledger import GroupLedger
from tests.faults.consumer_load import Load
from tests.faults.consumer_worker import Plan
from tests.faults.schedule import Happenings, cluster_faults, play, wire_faults
from tests.faults.stages import Real, real_stage

SEED = int(os.environ.get("CHAOS_SEED", "1"))
MINUTES = float(os.environ.get("CHAOS_MINUTES", "0.3"))
RECORDS = int(os.environ.get("CHAOS_RECORDS", "45000"))
CLIENTS = os.environ.get("CHAOS_CLIENTS", "aiokafka_lite").split(",")
SHORT = "CHAOS_MINUTES" not in os.environ
ALL_MODES = "cooperative,consumer" if SHORT else "eager,cooperative,consumer"
MODES = os.environ.get("CHAOS_MODES", ALL_MODES).split(",")
PROCESSES = int(os.environ.get("CHAOS_GROUP_PROCESSES", "4"))
SECONDS = MINUTES * 60 / len(MODES)

PARTITIONS = 24
GROWING = 2  # partitions of the topic that grows
SESSION = 6.0  # seconds
LONGEST = min(8.0, SECONDS / 5)  # seconds that a fault lasts
PEACE = min(10.0, SECONDS / 5)  # seconds after it, at most
CALM = SECONDS / 2 if SECONDS < 60 else 45.0  # seconds between two acts of one member
CATCH_UP = 120.0  # seconds after the last record, without further faults
STOPS_WITHIN = 5.0 + 10.0  # seconds: what stop() promises, plus time for a busy machine

BROKER_CONFIG = {
    "min.insync.replicas": 2,
    # Shorter than the members' sessions: no heartbeat is answered while a commit before it waits
    # for a replica that is gone.
    "broker.session.timeout.ms": 4000,
    "group.consumer.session.timeout.ms": int(SESSION * 1000),
    "group.consumer.min.session.timeout.ms": int(SESSION * 1000),
    "group.consumer.heartbeat.interval.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 1000,
}
CLUSTER_FAULTS = ("kill", "move_coordinator", "freeze", "lead_elsewhere", "restart", "grow")

pytestmark = [pytest.mark.real, pytest.mark.timeout(MINUTES * 120 + 900)]


async def play_group(
    stage: Real, mode: str, number: int, folder: Path, happenings: Happenings
) -> tuple[Fleet, dict[Place, int]]:
    """One group's life, from its first record to the end, when everything has been read.

    Raises:
        AssertionError: The group did not get to the end of the logs, or one of its processes did
            not end.
    """
    topics = [f"orders-{mode}", f"events-{mode}"]
    for topic, partitions in zip(topics, (PARTITIONS, GROWING), strict=True):
        await asyncio.to_thread(stage.kafka.create_topic, topic, partitions)
    stage.topics = topics
    plan = Plan(
        stage.bootstrap_servers,
        CLIENTS[0],
        topics,
        f"readers-{mode}",
        mode,
        journal="",
        members=[],
        seed="",
        calm=CALM,
        session=SESSION,
        max_poll=8.0,
    )
    seed = SEED * 100 + number
    fleet = Fleet(plan, folder, seed, CLIENTS, PROCESSES)
    count = RECORDS // len(MODES)
    load = Load(stage.bootstrap_servers, topics, rate=count / SECONDS, count=count)
    nodes, end = stage.kafka.node_ids, asyncio.Event()
    try:
        fleet.start()
        async with asyncio.TaskGroup() as group:
            for on, faults in (
                (stage, cluster_faults(seed, nodes, LONGEST, PEACE, CLUSTER_FAULTS)),
                (stage, wire_faults(seed, nodes, LONGEST / 4, PEACE)),
                (fleet, cluster_faults(seed + 1, fleet.nodes, LONGEST, PEACE, FLEET_FAULTS)),
            ):
                group.create_task(play(on, faults, end, happenings))
            await load.run()
            end.set()
        happenings.tell(f"all {sum(load.ends.values())} records are written, peace from now on")
        deadline = time.monotonic() + CATCH_UP
        while left := lagging(load.ends, fleet.seen):
            await asyncio.sleep(0.2)
            fleet.look()
            assert time.monotonic() < deadline, f"not read in time: {left}\n{fleet.logs()}"
        happenings.tell("all of them are read")
        await fleet.end()
    finally:
        fleet.kill_all()
    return fleet, load.ends


def judge(fleet: Fleet, ends: dict[Place, int], mode: str, happenings: Happenings) -> list[str]:
    ledger = GroupLedger(
        fleet.interruptions, static=fleet.static, strict=CLIENTS == ["aiokafka_lite"]
    )
    wrong = ledger.judge(fleet.events(), ends)
    tally = ledger.tally
    happenings.tell(
        f"{mode}: {tally.records} records, {tally.given} given, {tally.generations} generations, "
        f"{tally.lives} lives, {tally.overlaps} taken over, stop took {tally.longest_stop:.1f} s "
        f"at most; {dict(tally.events)}; {len(wrong)} wrong"
    )
    for words, times in tally.words.most_common(20):
        print(f"{times:8} x {words}")
    if tally.longest_stop > STOPS_WITHIN:
        wrong.append(f"stop took {tally.longest_stop:.1f} s")
    if tally.records < 0.9 * RECORDS / len(MODES):
        wrong.append(f"only {tally.records} records were written")
    troubles = tally.lives + len(fleet.interruptions) + tally.events["act"]
    troubles += sum(happenings.count[kind] for kind in CLUSTER_FAULTS)
    if tally.generations > 10 + 4 * troubles:
        wrong.append(f"a storm: {tally.generations} generations for {troubles} reasons")
    return [f"{mode}: {each}" for each in wrong]


async def test_every_record_is_read_and_no_committed_one_twice(tmp_path: Path) -> None:
    print(f"\nseed {SEED}, {MINUTES:g} minutes, {RECORDS} records, {CLIENTS}, {MODES}")
    happenings = Happenings()
    wrong: list[str] = []
    async with real_stage(SEED, BROKER_CONFIG, heap="256m") as stage:
        happenings.tell("the brokers are up")
        for number, mode in enumerate(MODES):
            happenings.count.clear()
            fleet, ends = await play_group(stage, mode, number, tmp_path, happenings)
            wrong += judge(fleet, ends, mode, happenings)
    assert not wrong, "\n".join([f"{len(wrong)} in all", *wrong[:60]])
