"""Chaos in a share group on three real brokers: every record is accepted, and no acceptance is
lost.

Four processes with two members each share 24 partitions and a topic that grows. Each member reads
in a different way. Processes are killed, stopped for longer than the locks last, and restarted;
members leave, rejoin and drop records on purpose; brokers are killed, paused and deposed, and
coordinators move. Each member writes down its deliveries, its acceptances and their results. The
ledger requires that

- each record was accepted, and no broker refused its last acceptance;
- no confirmed acceptance was followed by another;
- each delivery of a record that another member held has a cause: a fault at that time in that
  member's process or that partition's leader;
- a dead letter reached the limit of deliveries;
- each member receives records after the last fault.

Kafka's own tool reports the lag at the end. If the lag does not shrink, Kafka's own consumer joins
(see `share_judge`). CHAOS_SEED repeats a schedule; CHAOS_MINUTES (0.15 by default) is how long
faults happen, CHAOS_RECORDS how many records are written meanwhile. `make chaos-share SEED=7
RECORDS=5000000 MINUTES=10`.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aiokafka_lite import AIOKafkaAdminClient, AIOKafkaConsumer, TopicPartition
from aiokafka_lite.admin import ConfigResource
from aiokafka_lite.errors import KafkaError
from tests.faults.consumer_journal import Place, Verb
from tests.faults.consumer_load import Load
from tests.faults.schedule import Happenings, cluster_faults, play
from tests.faults.share_fleet import SHARE_FLEET_FAULTS, LeaderWatch, ShareFleet
from tests.faults.share_judge import most_locks, what_java_gets
from tests.faults.share_ledger import Deed, ShareLedger
from tests.faults.share_worker import SharePlan
from tests.faults.stages import Real
from tests.real.visibility import group_has_configs
from tools.kafka import KafkaCluster
from tools.kafka.java import run
from tools.kafka.releases import FALLBACK, NEWEST

SEED = int(os.environ.get("CHAOS_SEED", "1"))
MINUTES = float(os.environ.get("CHAOS_MINUTES", "0.15"))
RECORDS = int(os.environ.get("CHAOS_RECORDS", "12000"))
VERSION = os.environ.get("CHAOS_VERSION", NEWEST)
PROCESSES = int(os.environ.get("CHAOS_SHARE_PROCESSES", "4"))
SECONDS = MINUTES * 60

PARTITIONS = 24
GROWING = 2  # partitions of the topic that grows
LOCK = 10.0  # seconds
LIMIT = 10  # deliveries
LONGEST = min(8.0, SECONDS / 5)  # seconds that a fault lasts
PEACE = min(10.0, SECONDS / 5)  # seconds after it, at most
CALM = SECONDS / 2 if SECONDS < 60 else 45.0  # seconds between two acts of one member
PROGRESS = 90.0  # seconds in which each member receives a record, without faults
CATCH_UP = 90.0  # seconds in which the lag shrinks, likewise
STOPS_WITHIN = 5.0 + 3.0 + 10.0  # seconds: stop()'s promise, the drain, and a machine that is busy

GROUP = "sharers"
TOPICS = ["jobs", "mails"]
LETTERS = "dlq.sharers"
SESSION = 6.0  # seconds; partitions of a killed member may wait this long
BROKER_CONFIG = {
    "min.insync.replicas": 2,
    "broker.session.timeout.ms": 4000,
    "group.share.session.timeout.ms": int(SESSION * 1000),
    "group.share.min.session.timeout.ms": int(SESSION * 1000),
    "group.share.heartbeat.interval.ms": 1000,
    "group.share.min.heartbeat.interval.ms": 1000,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.max.delivery.count.limit": LIMIT,
}
GROUP_CONFIG = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": str(int(LOCK * 1000)),
    "share.delivery.count.limit": str(LIMIT),
}
DLQ_SINCE = (4, 4)
CLUSTER_FAULTS = ("kill", "move_coordinator", "freeze", "lead_elsewhere", "restart", "grow")
WHOLE_CLUSTER = ("move_coordinator", "lead_elsewhere", "grow")
LAG_TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"

pytestmark = [pytest.mark.real, pytest.mark.timeout(MINUTES * 180 + 1200)]


class Watched:
    """A stage that reports each fault to its watches."""

    def __init__(self, stage: Real) -> None:
        self._stage = stage

    def __getattr__(self, kind: str) -> object:
        async def fault(node: int, seconds: float) -> None:
            begin = time.monotonic_ns()
            try:
                await getattr(self._stage, kind)(node, seconds)
            finally:
                where = -1 if kind in WHOLE_CLUSTER else node
                for tell in self._stage.watches:
                    tell(where, begin, time.monotonic_ns())

        return fault


@asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[Real]:
    """Three brokers, whose logs are copied to the folder at the end."""
    kafka = KafkaCluster(VERSION, nodes=3, config=BROKER_CONFIG, heap="512m")
    await asyncio.to_thread(kafka.__enter__)
    try:
        yield Real(kafka, [], SEED)
    finally:
        for node in kafka.node_ids:
            (folder / f"broker-{node}.log").write_text(kafka.log(node))
        await asyncio.to_thread(kafka.close)


def has_letters(real: Real) -> bool:
    return real.kafka.release.number >= DLQ_SINCE


async def prepare(real: Real) -> None:
    """Create the topics and configure the group."""
    for topic, partitions in zip(TOPICS, (PARTITIONS, GROWING), strict=True):
        await asyncio.to_thread(real.kafka.create_topic, topic, partitions)
    real.topics = TOPICS
    changes = dict(GROUP_CONFIG)
    if has_letters(real):
        letters = {"errors.deadletterqueue.group.enable": "true"}
        await asyncio.to_thread(real.kafka.create_topic, LETTERS, 1, None, letters)
        changes["errors.deadletterqueue.topic.name"] = LETTERS
    async with AIOKafkaAdminClient(bootstrap_servers=real.bootstrap_servers) as admin:
        result = await admin.incremental_alter_configs({ConfigResource("group", GROUP): changes})
        result.raise_for_errors()
    await group_has_configs(real.kafka.bootstrap_servers, GROUP, changes)


async def everybody_moves(fleet: ShareFleet, servers: str, ends: dict[Place, int]) -> None:
    """Write until each member has received a record.

    Raises:
        AssertionError: One is stuck.
    """
    began = time.monotonic()
    while True:
        fleet.look()
        wrong = [str(event) for event in fleet.words if event.verb is Verb.MISTAKE]
        assert not wrong, "\n".join(wrong)
        stuck = [name for name in fleet.members if fleet.moved.get(name, 0.0) < began]
        if not stuck:
            return
        assert time.monotonic() < began + PROGRESS, f"stuck: {stuck}\n{fleet.logs()}"
        load = Load(servers, TOPICS, rate=5_000, count=10_000)
        load.ends = ends
        await load.run()


async def lag_of(admin: AIOKafkaAdminClient, ends: dict[Place, int]) -> dict[Place, int]:
    """The lag of each partition that has one."""
    found = (await admin.list_share_group_offsets([GROUP])).raise_for_errors()[GROUP]
    offsets = dict(found.raise_for_errors())
    lags: dict[Place, int] = {}
    for place, end in ends.items():
        at = offsets.get(TopicPartition(*place))
        lag = end if at is None or at.lag is None else at.lag
        if lag:
            lags[place] = lag
    return lags


async def what_stays(
    servers: str, ends: dict[Place, int], happenings: Happenings
) -> dict[Place, int]:
    """Wait until the group has no lag, or until the lag stops shrinking; return it."""
    least, deadline, lags, told = 1 << 60, time.monotonic() + CATCH_UP, dict(ends), 0.0
    async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
        while least and time.monotonic() < deadline:
            try:
                lags = await lag_of(admin, ends)
            except KafkaError as error:
                happenings.tell(repr(error))
            else:
                left = sum(lags.values())
                if left < least:
                    least, deadline = left, time.monotonic() + CATCH_UP
                if time.monotonic() > told + 5:
                    told = time.monotonic()
                    some = dict(list(lags.items())[:5])
                    happenings.tell(f"{left} records left in {len(lags)} partitions: {some}")
            await asyncio.sleep(0.5)
    return lags


async def everything_is_finished(
    servers: str, ends: dict[Place, int], fleet: ShareFleet, happenings: Happenings, folder: Path
) -> None:
    """Wait until the group has no lag. If it does not shrink, Java's consumer tries, too: this
    client withheld whatever it receives.

    Raises:
        AssertionError: The lag stopped shrinking, and the brokers are not the cause.
    """
    if not (stuck := await what_stays(servers, ends, happenings)):
        return
    state = await fleet.dump()
    (folder / "stuck.txt").write_text(state)
    happenings.tell(f"the lag does not shrink: {stuck}; Java tries")
    found = await what_java_gets(servers, GROUP, stuck, fleet, folder)
    assert not found.keys() & stuck.keys(), f"unfinished: {stuck}; Java gets {found}\n{state}"
    happenings.tell("Java receives nothing either: the brokers may lock more records now")
    await most_locks(servers, GROUP)
    fleet.start()
    stuck = await what_stays(servers, ends, happenings)
    assert not stuck, f"unfinished: {stuck}\n{fleet.logs()}"


async def lag_by_java(real: Real, ends: dict[Place, int]) -> list[str]:
    """Problems that Kafka's tool reports at the end of the group; empty if there are none."""
    arguments = ["--bootstrap-server", real.bootstrap_servers, "--describe", "--group", GROUP]
    lines = await asyncio.to_thread(run, LAG_TOOL, [*arguments, "--offsets"], FALLBACK, timeout=180)
    rows = [line.split() for line in lines if line.startswith(GROUP)]
    lags = {(row[1], int(row[2])): row[-1] for row in rows}
    return [
        f"Kafka's tool: {place} has lag {lags.get(place)}: {lines}"
        for place in ends
        if lags.get(place) != "0"
    ]


async def dead_letters(real: Real) -> dict[tuple[int, int], int]:
    """Map the partition and offset of each dead letter to its delivery count."""
    if not has_letters(real):
        return {}
    found: dict[tuple[int, int], int] = {}
    async with AIOKafkaConsumer(
        LETTERS, bootstrap_servers=real.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        (tp,) = consumer.assignment()
        end = (await consumer.end_offsets([tp]))[tp]
        while await consumer.position(tp) < end:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                for record in records:
                    headers = {name: (value or b"").decode() for name, value in record.headers}
                    topic = TOPICS.index(headers["__dlq.errors.topic"])
                    place = 1000 * topic + int(headers["__dlq.errors.partition"])
                    key = place, int(headers["__dlq.errors.offset"])
                    found[key] = int(headers["__dlq.errors.delivery.count"])
    return found


def judge(
    fleet: ShareFleet,
    watch: LeaderWatch,
    ends: dict[Place, int],
    dead: dict[tuple[int, int], int],
    happenings: Happenings,
) -> list[str]:
    places = {1000 * TOPICS.index(topic) + number: end for (topic, number), end in ends.items()}
    causes = watch.explain(fleet.causes(LOCK - 2))
    ledger = ShareLedger(places, causes, LIMIT)
    wrong = ledger.judge(fleet.journals, dead)
    tally = ledger.tally
    deeds = {deed.name.lower(): count for deed, count in tally.deeds.items()}
    happenings.tell(f"{tally.records} records, {len(dead)} dead; {deeds}")
    happenings.tell(f"delivery counts {dict(sorted(tally.counts.items()))}")
    happenings.tell(f"delivered again {dict(tally.again)}, accepted again {dict(tally.repeated)}")
    happenings.tell(f"refused {dict(tally.refusals)}")
    words: Counter[str] = Counter()
    for event in fleet.words:
        if event.verb is Verb.MISTAKE:
            wrong.append(f"a mistake: {event}")
        if event.verb is Verb.STOPPED and event.number > 1000 * STOPS_WITHIN:
            wrong.append(f"stop took {event.number / 1000:.1f} s: {event}")
        words[f"{event.verb} {event.text[:160]}"] += event.verb is not Verb.GIVEN
    for text, times in words.most_common(25):
        print(f"{times:8} x {text}")
    if tally.deeds[Deed.CONFIRMED] == 0:
        wrong.append("no member wrote down a confirmation")
    return wrong


async def play_share_group(
    real: Real,
    folder: Path,
    happenings: Happenings,
    report_faults: Callable[[], None] = lambda: None,
) -> list[str]:
    """Run the group; return the problems.

    Args:
        real: The brokers.
        folder: For files.
        happenings: The log of events.
        report_faults: Called before the ledger is judged; may report more faults to the stage's
        watches.

    Raises:
        AssertionError: A member is stuck, or the group did not finish all records.
    """
    await prepare(real)
    servers = real.bootstrap_servers
    plan = SharePlan(servers, TOPICS, GROUP, "", "", [], "", CALM, LOCK)
    fleet, watch = ShareFleet(plan, folder, SEED, PROCESSES), LeaderWatch(servers, TOPICS)
    load = Load(servers, TOPICS, rate=RECORDS / SECONDS, count=RECORDS)
    nodes, end = real.kafka.node_ids, asyncio.Event()
    real.watches.append(watch.on_trouble)
    watching = asyncio.create_task(watch.run())
    try:
        fleet.start()
        async with asyncio.TaskGroup() as group:
            for on, faults in (
                (
                    Watched(real),
                    cluster_faults(SEED, nodes, LONGEST, PEACE, CLUSTER_FAULTS),
                ),
                (
                    fleet,
                    cluster_faults(SEED + 1, fleet.nodes, LONGEST, PEACE, SHARE_FLEET_FAULTS),
                ),
            ):
                group.create_task(play(on, faults, end, happenings))
            await load.run()
            end.set()
        happenings.tell(f"{sum(load.ends.values())} records are written, peace from now on")
        await everybody_moves(fleet, servers, load.ends)
        happenings.tell("every member was given records")
        await everything_is_finished(servers, load.ends, fleet, happenings, folder)
        happenings.tell("the group has no lag")
        await fleet.end()
        wrong = await lag_by_java(real, load.ends)
        dead = await dead_letters(real)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        fleet.kill_all()
    report_faults()
    return wrong + judge(fleet, watch, load.ends, dead, happenings)


async def test_every_record_is_accepted_and_each_repeat_has_a_cause(tmp_path: Path) -> None:
    print(f"\nseed {SEED}, {MINUTES:g} minutes, {RECORDS} records, Kafka {VERSION}")
    happenings = Happenings()
    async with stage(tmp_path) as real:
        happenings.tell("the brokers are up")
        wrong = await play_share_group(real, tmp_path, happenings)
    assert not wrong, "\n".join([f"{len(wrong)} in all", *wrong[:60]])
