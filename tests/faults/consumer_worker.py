"""A process of a chaos run with some members of a group in its event loop; `Fleet` starts it.

Argument: the path of a JSON file, `Plan`. Each member reads, commits the offsets of processed
records, and from time to time leaves, returns, pauses, sleeps past max.poll.interval or changes its
subscription, drawn from the seed. SIGTERM ends them all cleanly. The journal records all events.
The API is aiokafka's, so the same code drives both clients.
"""

import asyncio
import gc
import importlib
import json
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvloop

from tests.faults.acts import LogCounter
from tests.faults.consumer_journal import Journal, Place, Verb

__all__ = ["Client", "Member", "MemberPlan", "Plan"]

COMMIT_EVERY = 200  # records that are read one by one
TELL_EVERY = (
    100  # of those, of a member that commits itself: nobody counts on one before it is told
)
TELL_WITHIN = 0.05  # seconds
ACTS = ("leave", "resubscribe", "doze", "pause", "leave")


@dataclass(frozen=True)
class MemberPlan:
    """One member.

    Attributes:
        reads: "lists", "records" (async for) or "impatient" (getone, cancelled again and again).
        auto_commit: Otherwise it commits what it has processed.
        instance: Of a static member; None of a dynamic one.
    """

    name: str
    reads: str
    auto_commit: bool
    instance: str | None


@dataclass(frozen=True)
class Plan:
    """A process.

    Attributes:
        client: The package whose consumer it is.
        protocol: "eager" (the client's default assignor), an assignor's name, or "consumer".
        calm: Mean seconds between two acts of a member.
        session: Seconds; of the classic protocol.
        max_poll: Seconds.
        pace: The factor of all other times.
        acts: The actions of a member.
    """

    bootstrap_servers: str
    client: str
    topics: list[str]
    group: str
    protocol: str
    journal: str
    members: list[MemberPlan]
    seed: str
    calm: float
    session: float
    max_poll: float
    pace: float = 1.0
    acts: Sequence[str] = ACTS

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> "Plan":
        found = json.loads(path.read_text())
        return cls(**{**found, "members": [MemberPlan(**each) for each in found["members"]]})


class Client:
    """The package under test, and the differences between the two."""

    def __init__(self, name: str) -> None:
        self.ours = name == "aiokafka_lite"
        self.package = importlib.import_module(name)
        self.errors = importlib.import_module(f"{name}.errors")
        self._name = name

    def settings(self, plan: Plan, member: MemberPlan) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap_servers": plan.bootstrap_servers,
            "client_id": member.name,
            "group_id": plan.group,
            "group_instance_id": member.instance,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": member.auto_commit,
            "auto_commit_interval_ms": int(500 * plan.pace),
            "metadata_max_age_ms": int(5_000 * plan.pace),
            "request_timeout_ms": int(5_000 * plan.pace),
            "max_poll_interval_ms": int(plan.max_poll * 1000),
        }
        if plan.protocol == "consumer":
            settings["group_protocol"] = "consumer"
            return settings
        settings["session_timeout_ms"] = int(plan.session * 1000)
        settings["heartbeat_interval_ms"] = int(plan.session * 1000 / 8)
        settings["rebalance_timeout_ms"] = int(plan.max_poll * 1000)
        if plan.protocol != "eager":
            settings["partition_assignment_strategy"] = [self.assignor(plan.protocol)]
        return settings

    def assignor(self, name: str) -> type[Any]:
        module, found = {
            "range": ("range", "RangePartitionAssignor"),
            "roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
            "sticky": ("sticky.sticky_assignor", "StickyPartitionAssignor"),
            "cooperative": ("cooperative_sticky", "CooperativeStickyPartitionAssignor"),
        }[name]
        module = importlib.import_module(f"{self._name}.coordinator.assignors.{module}")
        assignor: type[Any] = getattr(module, found)
        return assignor

    def generation(self, consumer: Any) -> int:
        """The consumer's generation or member epoch."""
        if self.ours:
            # The current value; `group_metadata` returns that of the last read.
            return int(consumer._core.group.driver.membership.group_metadata().generation)
        return int(consumer._coordinator.generation)  # aiokafka has no public API for it


class Member:
    """One member, restarted repeatedly."""

    def __init__(
        self, client: Client, plan: Plan, member: MemberPlan, journal: Journal, ends: asyncio.Event
    ) -> None:
        self._client, self._plan, self._member = client, plan, member
        self._journal, self._ends = journal, ends
        self._draw = random.Random(f"{plan.seed} {member.name}")
        self._life = member.name
        self._handed: dict[Place, int] = {}  # the offset after the last one handed out
        self._untold: dict[Any, tuple[int, int]] = {}  # partition: first and last offset
        self._telling: asyncio.TimerHandle | None = None
        self._unsettled = 0  # records read since the last commit
        self._awake = asyncio.Event()
        self._awake.set()
        self._consumer: Any = None

    def tell(self, verb: Verb, spread: Any = (), number: int = 0, text: str = "") -> None:
        if self._untold:
            self._tell_given()
        self._journal.tell(self._life, verb, spread, number, text)

    async def live(self) -> None:
        """Run until the process ends."""
        while not self._ends.is_set():
            # No other life of this name, in this process or another, has the same number.
            self._life = f"{self._member.name}/{time.monotonic_ns() // 1_000_000}"
            self._handed.clear()
            self.tell(Verb.STARTING)
            try:
                await self._live_once()
            except self._client.errors.KafkaError as error:
                self.tell(Verb.ERROR, text=f"start: {type(error).__name__}: {error}")
            except Exception as error:
                logging.exception("a mistake of %s", self._life)
                self.tell(Verb.MISTAKE, text=repr(error))
            await self._rest(self._draw.uniform(0.2, 2.0))

    async def _rest(self, seconds: float) -> bool:
        """Wait for a time or the end; True if the end has come."""
        try:
            await asyncio.wait_for(self._ends.wait(), seconds * self._plan.pace)
        except TimeoutError:
            return False
        return True

    async def _live_once(self) -> None:
        plan = self._plan
        consumer = self._consumer = self._client.package.AIOKafkaConsumer(
            **self._client.settings(plan, self._member)
        )
        reading: asyncio.Task[None] | None = None
        try:
            self._subscribe()
            starting = asyncio.ensure_future(consumer.start())
            ending = asyncio.ensure_future(self._ends.wait())
            await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
            if not starting.done():
                starting.cancel()
                await asyncio.wait([starting])
                return
            starting.result()
            self.tell(Verb.STARTED)
            reading = asyncio.create_task(self._read(), name=f"reader of {self._life}")
            while not await self._rest(self._draw.uniform(0.3, 1.7) * plan.calm):
                act = self._draw.choice(self._plan.acts)
                self.tell(Verb.ACT, text=act)
                if act == "leave":
                    break
                await getattr(self, f"_{act}")()
                if act == "crash":
                    break
        finally:
            self._awake.set()
            self.tell(Verb.STOPPING)
            began = time.monotonic()
            await self._let_pass(consumer.stop())
            self.tell(Verb.STOPPED, number=round((time.monotonic() - began) * 1000))
            if reading is not None:
                done, _ = await asyncio.wait([reading], timeout=5)
                if not done:
                    verb = Verb.MISTAKE if self._client.ours else Verb.ERROR
                    self.tell(verb, text="a read did not end with its consumer")
                    reading.cancel()
                await self._let_pass(reading)

    async def _let_pass(self, awaitable: Awaitable[None]) -> None:
        """No code cancels this task: aiokafka's cancellations of its own tasks reach its
        callers."""
        try:
            await awaitable
        except asyncio.CancelledError:
            if self._client.ours:
                raise
            self.tell(Verb.ERROR, text="CancelledError")

    # --- actions

    def _subscribe(self) -> None:
        listener = _listener(self._client, self)
        self._consumer.subscribe(self._plan.topics, listener=listener)

    async def _resubscribe(self) -> None:
        self.tell(Verb.REVOKING, self._consumer.assignment())
        self._consumer.unsubscribe()
        await self._rest(self._draw.uniform(0, 1))
        self._subscribe()

    async def _doze(self) -> None:
        self._awake.clear()
        await self._rest(self._plan.max_poll * 1.3 / self._plan.pace)
        self._awake.set()

    async def _crash(self) -> None:
        """A crash without ending the process: no more bytes are sent, and another life begins."""
        self._consumer._core.abort()

    async def _pause(self) -> None:
        held = sorted(self._consumer.assignment())
        some = self._draw.sample(held, len(held) // 2)
        self._consumer.pause(*some)
        await self._rest(self._draw.uniform(0.1, 1))
        held = self._consumer.assignment()
        self._consumer.resume(*(tp for tp in some if tp in held))

    # --- callbacks

    async def revoked(self, partitions: Iterable[Any]) -> None:
        self.tell(Verb.REVOKING, partitions)
        if not self._member.auto_commit and self._draw.random() < 0.5:
            await self._commit({tp: self._handed[tp] for tp in partitions if tp in self._handed})

    def assigned(self, partitions: Iterable[Any]) -> None:
        for tp in partitions:
            self._handed.pop(tp, None)
        self.tell(Verb.ASSIGNED, partitions)
        generation = self._client.generation(self._consumer)
        self.tell(Verb.HOLDS, self._consumer.assignment(), generation)

    def lost(self, partitions: Iterable[Any]) -> None:
        self.tell(Verb.LOST, partitions)

    # --- reading

    async def _read(self) -> None:
        errors = self._client.errors
        read = getattr(self, f"_read_{self._member.reads}")
        while True:
            try:
                await self._awake.wait()
                await read()
            except errors.ConsumerStoppedError:
                return
            except errors.KafkaError as error:
                self.tell(Verb.ERROR, text=type(error).__name__)
                await asyncio.sleep(0.2)

    async def _read_lists(self) -> None:
        most = self._draw.choice([None, 20, 300])
        lists = await self._consumer.getmany(timeout_ms=500 * self._plan.pace, max_records=most)
        if not lists:
            return
        self._take(lists)
        if self._draw.random() < 0.1:
            await asyncio.sleep(self._draw.random() * 0.02)
        await self._settle()

    async def _read_records(self) -> None:
        async for record in self._consumer:
            self._take_one(record)
            if self._unsettled >= COMMIT_EVERY:
                await self._settle()
            if not self._awake.is_set():
                return
        raise self._client.errors.ConsumerStoppedError()

    async def _read_impatient(self) -> None:
        try:
            async with asyncio.timeout(self._draw.random() * 0.02):
                record = await self._consumer.getone()
        except TimeoutError:
            return
        self._take_one(record)
        if self._unsettled >= COMMIT_EVERY:
            await self._settle()

    def _take(self, lists: Mapping[Any, list[Any]]) -> None:
        """Record returned records before anything is awaited."""
        spread = {tp: (records[0].offset, records[-1].offset) for tp, records in lists.items()}
        self.tell(Verb.GIVEN, spread)
        for tp, records in lists.items():
            offset = spread[tp][0]
            for record in records:
                if record.offset != offset or record.value[:12] != b"%012d" % offset:
                    self.tell(Verb.MISTAKE, text=f"{offset} of {tp} is {record}")
                offset += 1
            self._handed[tp] = offset
            self._unsettled += len(records)

    def _take_one(self, record: Any) -> None:
        """Record it, together with later ones unless it is needed earlier."""
        place, offset = (record.topic, record.partition), record.offset
        if record.value[:12] != b"%012d" % offset:
            self.tell(Verb.MISTAKE, text=f"{offset} of {place} is {record}")
        first, last = self._untold.get(place, (offset, offset - 1))
        if offset != last + 1:
            self._tell_given()
            first = offset
        self._untold[place] = first, offset
        self._handed[place] = offset + 1
        self._unsettled += 1
        if self._member.auto_commit or self._unsettled % TELL_EVERY == 0:
            self._tell_given()
        elif self._telling is None:
            loop = asyncio.get_running_loop()
            self._telling = loop.call_later(TELL_WITHIN, self._tell_given)

    def _tell_given(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        untold, self._untold = self._untold, {}
        if untold:
            self._journal.tell(self._life, Verb.GIVEN, untold)

    async def _settle(self) -> None:
        """Commit the processed records, in one of several ways."""
        self._tell_given()
        self._unsettled = 0
        if self._member.auto_commit:
            return
        held = self._consumer.assignment()
        offsets = {tp: self._handed[tp] for tp in held if tp in self._handed}
        await self._commit(offsets, plainly=self._draw.random() < 0.5)

    async def _commit(self, offsets: dict[Any, int], *, plainly: bool = False) -> None:
        if not offsets:
            return
        try:
            if plainly:
                await self._consumer.commit()
            else:
                await self._consumer.commit(offsets)
        except self._client.errors.KafkaError as error:
            self.tell(Verb.REFUSED, text=type(error).__name__)
        else:
            self.tell(Verb.COMMITTED, {tp: (offset, offset) for tp, offset in offsets.items()})


def _listener(client: Client, member: Member) -> Any:
    class Listener(client.package.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]  # either's
        async def on_partitions_revoked(self, revoked: set[Any]) -> None:
            await member.revoked(revoked)

        async def on_partitions_assigned(self, assigned: set[Any]) -> None:
            member.assigned(assigned)

        async def on_partitions_lost(self, lost: set[Any]) -> None:
            member.lost(lost)

    return Listener()


async def work(plan: Plan) -> None:
    loop = asyncio.get_running_loop()
    ends = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ends.set)
    journal = Journal(Path(plan.journal))
    name = plan.members[0].name.split(".")[0]

    def mistake(_: object, context: dict[str, Any]) -> None:
        logging.error("the loop's: %s", context, exc_info=context.get("exception"))
        journal.tell(name, Verb.MISTAKE, text=str(context))

    client = Client(plan.client)
    if client.ours:
        loop.set_exception_handler(mistake)
    with LogCounter() as logs:
        members = [Member(client, plan, each, journal, ends) for each in plan.members]
        await asyncio.gather(*(member.live() for member in members))
        gc.collect()
        await asyncio.sleep(0)
    for line in logs.critical:
        journal.tell(name, Verb.MISTAKE, text=f"logged: {line}")
    for line, count in logs.lines.most_common():
        print(f"{count:8} x {line}")
    journal.close()


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("aiokafka_lite.group").setLevel(os.environ.get("CHAOS_LOG", "INFO"))
    arguments = Plan.read(Path(sys.argv[1]))
    # Every other process runs on uvloop.
    factory = uvloop.new_event_loop if arguments.seed.endswith("odd") else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work(arguments))
