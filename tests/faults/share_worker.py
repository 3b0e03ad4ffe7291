"""A process of a chaos run with some members of a share group in its event loop.

Argument: the path of a JSON file, `SharePlan`. Each member reads and accepts in its own way, and
from time to time leaves and returns, changes its subscription, or drops records, drawn from the
seed. SIGTERM ends them all cleanly. Events of records are written to a `ShareJournal` before the
client call, all others to a text journal.
"""

import asyncio
import gc
import json
import logging
import os
import random
import signal
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvloop

from aiokafka_lite import AIOKafkaShareConsumer
from aiokafka_lite.errors import ConsumerStoppedError, InvalidRecordStateError, KafkaError
from aiokafka_lite.share.acknowledgement import Acknowledgement
from aiokafka_lite.share.share_record import ShareRecord
from tests.faults.acts import LogCounter
from tests.faults.consumer_journal import Journal, Verb
from tests.faults.share_journal import Deed, ShareJournal

__all__ = ["WAYS", "ShareMember", "SharePlan"]

TICK = 0.1  # seconds between two signs of life, and between two checks of acknowledgements
TELL_EVERY = 0.5  # seconds between two reports of progress
ACTS = ("leave", "resubscribe", "forget", "leave")
WAYS = ("run", "records", "lists", "slow", "implicit", "process", "impatient", "wide")
"""How a member reads; one member of each."""

Record = ShareRecord[Any, Any]


@dataclass(frozen=True)
class SharePlan:
    """A process.

    Attributes:
        journal: Of records.
        words: The text journal.
        members: Name and way of each.
        calm: Mean seconds between two acts of a member.
        lock: Seconds that the group locks a record.
    """

    bootstrap_servers: str
    topics: list[str]
    group: str
    journal: str
    words: str
    members: list[tuple[str, str]]
    seed: str
    calm: float
    lock: float

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> "SharePlan":
        found = json.loads(path.read_text())
        return cls(**{**found, "members": [tuple(each) for each in found["members"]]})


class ShareMember:
    """One member, restarted repeatedly."""

    def __init__(
        self,
        plan: SharePlan,
        number: int,
        journal: ShareJournal,
        words: Journal,
        ends: asyncio.Event,
    ) -> None:
        self._plan, self._ends = plan, ends
        self._name, self._way = plan.members[number]
        self._journal, self._words = journal, words
        self._draw = random.Random(f"{plan.seed} {self._name}")
        self._life = 1000 * number
        self._topics = {topic: 1000 * index for index, topic in enumerate(plan.topics)}
        self._open: deque[tuple[Acknowledgement, int, int, int]] = deque()
        self._forgets = False
        self.given = 0
        self._consumer: AIOKafkaShareConsumer

    def tell(self, verb: Verb, number: int = 0, text: str = "") -> None:
        self._words.tell(self._name, verb, (), number, text)

    def _place(self, record: Record) -> int:
        return self._topics[record.topic] + record.partition

    def _on_given(self, record: Record) -> int:
        """The application has a record."""
        place, offset = self._place(record), record.offset
        self._journal.tell(Deed.GIVEN, self._life, place, offset, offset, record.delivery_count)
        self.given += 1
        if record.value[:12] != b"%012d" % offset:
            self.tell(Verb.MISTAKE, text=f"{offset} of {place} is {record}")
        return place

    # --- life

    async def live(self) -> None:
        """Run until the process ends."""
        while not self._ends.is_set():
            self._life += 1
            self.tell(Verb.STARTING)
            try:
                await self._live_once()
            except KafkaError as error:
                self.tell(Verb.ERROR, text=f"start: {type(error).__name__}: {error}")
            except Exception as error:
                logging.exception("a mistake of %s", self._name)
                self.tell(Verb.MISTAKE, text=repr(error))
            await self._rest(self._draw.uniform(0.2, 2.0))

    async def _rest(self, seconds: float) -> bool:
        """Wait for a time or the end; True if the end has come."""
        try:
            await asyncio.wait_for(self._ends.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _new_consumer(self) -> AIOKafkaShareConsumer:
        plan = self._plan
        return AIOKafkaShareConsumer(
            *plan.topics,
            bootstrap_servers=plan.bootstrap_servers,
            client_id=self._name,
            group_id=plan.group,
            acquire_mode="batch_optimized" if self._way == "wide" else "record_limit",
            acknowledgement_mode="implicit" if self._way == "implicit" else "explicit",
            request_timeout_ms=5_000,
            metadata_max_age_ms=5_000,
        )

    async def _live_once(self) -> None:
        plan = self._plan
        consumer = self._consumer = self._new_consumer()
        reading: asyncio.Task[None] | None = None
        try:
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
            reading = asyncio.create_task(self._read(), name=f"reader of {self._name}")
            while not await self._rest(self._draw.uniform(0.3, 1.7) * plan.calm):
                act = self._draw.choice(ACTS)
                self.tell(Verb.ACT, text=act)
                if act == "leave":
                    break
                if act == "resubscribe":
                    consumer.unsubscribe()
                    await self._rest(self._draw.uniform(0, 1))
                    consumer.subscribe(plan.topics)
                else:
                    self._forgets = True
        finally:
            self.tell(Verb.STOPPING)
            self._journal.tell(Deed.LEAVING, self._life)
            began = time.monotonic()
            await consumer.stop()
            self.tell(Verb.STOPPED, number=round((time.monotonic() - began) * 1000))
            if reading is not None:
                done, _ = await asyncio.wait([reading], timeout=10)
                if not done:
                    self.tell(Verb.MISTAKE, text="a read did not end with its consumer")
                    reading.cancel()
                await reading
            self.look()
            if self._open:
                self.tell(Verb.MISTAKE, text=f"{len(self._open)} acceptances have no result")
                self._open.clear()

    async def _read(self) -> None:
        read = getattr(self, f"_read_{self._way}")
        while True:
            try:
                await read()
            except ConsumerStoppedError:
                return
            except KafkaError as error:
                self.tell(Verb.ERROR, text=f"{type(error).__name__}: {error}")
                await asyncio.sleep(0.2)
            except Exception as error:
                logging.exception("a mistake of %s", self._name)
                self.tell(Verb.MISTAKE, text=repr(error))
                return

    def dump(self) -> None:
        """Print the state of the consumer."""
        core = self._consumer._core
        now = core.loop.time()
        buffer = core.buffer
        print(f"{self._name}: {sorted(core.assignment)}, buffered {len(buffer)}", flush=True)
        print(f"    reads {buffer.limits}, wish {core._wish}, {self._consumer.health()}")
        for node, link in core._leaders._links.items():
            pace, pending = link._pace, link.pending
            print(
                f"    broker {node}: epoch {link.session.epoch}, wanted {len(link.session.wanted)},"
                f" claimed {link.claimed}, fetched {now - link.fetched_at:.3f} s ago, "
                f"due in {pace.due - now:.3f}, resumes in {pace.resume_at - now:.3f}, "
                f"holds {pending.holds}, waiting {pending.waiting}",
                flush=True,
            )

    # --- acknowledgements

    def _accept(self, record: Record, place: int) -> Acknowledgement:
        offset = record.offset
        self._journal.tell(Deed.ACCEPTING, self._life, place, offset, offset)
        acknowledgement = record.accept()
        self._open.append((acknowledgement, self._life, place, offset))
        return acknowledgement

    def look(self) -> None:
        """Record the results that are known."""
        for _ in range(len(self._open)):
            each = self._open.popleft()
            acknowledgement, life, place, offset = each
            if not acknowledgement.done():
                self._open.append(each)
                continue
            error = acknowledgement.exception()
            if error is None:
                deed = Deed.CONFIRMED
            elif isinstance(error, InvalidRecordStateError):
                deed = Deed.REFUSED
            else:
                deed = Deed.UNKNOWN
            self._journal.tell(deed, life, place, offset, offset)

    # --- ways to read

    async def _read_run(self) -> None:
        await self._run(200, slow=30_000)

    async def _read_slow(self) -> None:
        await self._run(50, slow=3_000)

    async def _read_wide(self) -> None:
        await self._run(1_000, slow=100_000)

    async def _run(self, concurrency: int, *, slow: int) -> None:
        draw, tell = self._draw, self._journal.tell

        async def handle(record: Record) -> None:
            place, offset, life = self._on_given(record), record.offset, self._life
            luck = draw.randrange(slow)
            if luck == 0:
                await asyncio.sleep(self._plan.lock * draw.uniform(1.1, 1.6))
            elif luck % 500 == 1:
                await asyncio.sleep(draw.random() * 0.05)
            elif luck % 1000 == 2 and record.delivery_count == 1:
                tell(Deed.RELEASING, life, place, offset, offset)
                raise TimeoutError("a dependency is away")
            tell(Deed.ACCEPTING, life, place, offset, offset)

        await self._consumer.run(
            handle, concurrency=concurrency, retry_delay_ms=50, drain_timeout_ms=3_000
        )
        raise ConsumerStoppedError()

    async def _read_records(self) -> None:
        async for record in self._consumer:
            place = self._on_given(record)
            if not self._forgotten([record]):
                self._accept(record, place)
            if self._draw.random() < 0.001:
                await asyncio.sleep(self._draw.random() * 0.02)
        raise ConsumerStoppedError()

    async def _read_lists(self) -> None:
        most = self._draw.choice([None, 20, 300])
        records = await self._consumer.getmany(timeout_ms=500, max_records=most)
        places = [self._on_given(record) for record in records]
        if not records:
            await asyncio.sleep(0)
            return
        if self._draw.random() < 0.05:
            await asyncio.sleep(self._draw.random() * 0.05)
        if self._forgotten(records):
            return
        for record, place in zip(records, places, strict=True):
            self._accept(record, place)
        await self._consumer.flush()
        self.look()

    async def _read_implicit(self) -> None:
        records = await self._consumer.getmany(timeout_ms=500)
        places = [self._on_given(record) for record in records]
        if self._draw.random() < 0.05:
            await asyncio.sleep(self._draw.random() * 0.05)
        for record, place in zip(records, places, strict=True):
            self._journal.tell(Deed.ACCEPTING, self._life, place, record.offset, record.offset)
        if self._draw.random() < 0.1:
            await self._consumer.flush()

    async def _read_process(self) -> None:
        async for record in self._consumer:
            place, offset = self._on_given(record), record.offset
            luck = self._draw.randrange(20_000)
            try:
                async with record.process():
                    if luck == 0:
                        await asyncio.sleep(self._plan.lock * self._draw.uniform(1.1, 1.6))
                    elif luck % 1000 == 1 and record.delivery_count == 1:
                        self._journal.tell(Deed.RELEASING, self._life, place, offset, offset)
                        raise TimeoutError("a dependency is away")
                    self._journal.tell(Deed.ACCEPTING, self._life, place, offset, offset)
            except InvalidRecordStateError:
                self._journal.tell(Deed.REFUSED, self._life, place, offset, offset)
        raise ConsumerStoppedError()

    async def _read_impatient(self) -> None:
        try:
            async with asyncio.timeout(self._draw.random() * 0.1):
                record = await self._consumer.getone()
        except TimeoutError:
            return
        acknowledgement = self._accept(record, self._on_given(record))
        if self._draw.random() < 0.1:
            try:
                async with asyncio.timeout(self._draw.random() * 0.05):
                    await acknowledgement
            except (TimeoutError, KafkaError):
                return  # `look` writes the result down

    def _forgotten(self, records: Sequence[Record]) -> bool:
        """Drop records if requested: their locks expire."""
        if not self._forgets:
            return False
        self._forgets = False
        for record in records:
            place, offset = self._place(record), record.offset
            self._journal.tell(Deed.RELEASING, self._life, place, offset, offset)
        return True


async def tick(members: Sequence[ShareMember], journal: ShareJournal) -> None:
    """Write signs of life, results and progress."""
    told: list[int] = [0] * len(members)
    tell_at = 0.0
    while True:
        journal.tell(Deed.ALIVE, 0)
        for member in members:
            member.look()
        if (now := time.monotonic()) >= tell_at:
            tell_at = now + TELL_EVERY
            for number, member in enumerate(members):
                if member.given != told[number]:
                    told[number] = member.given
                    member.tell(Verb.GIVEN, member.given)
        await asyncio.sleep(TICK)


async def work(plan: SharePlan) -> None:
    loop = asyncio.get_running_loop()
    ends = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ends.set)
    journal, words = ShareJournal(Path(plan.journal)), Journal(Path(plan.words))
    process = plan.members[0][0].split(".")[0]

    def mistake(_: object, context: dict[str, Any]) -> None:
        logging.error("the loop's: %s", context, exc_info=context.get("exception"))
        words.tell(process, Verb.MISTAKE, text=str(context))

    loop.set_exception_handler(mistake)
    with LogCounter() as logs:
        members = [
            ShareMember(plan, number, journal, words, ends) for number in range(len(plan.members))
        ]
        loop.add_signal_handler(signal.SIGUSR1, lambda: [member.dump() for member in members])
        ticking = asyncio.create_task(tick(members, journal))
        await asyncio.gather(*(member.live() for member in members))
        ticking.cancel()
        await asyncio.wait([ticking])
        gc.collect()
        await asyncio.sleep(0)
    for line in logs.critical:
        words.tell(process, Verb.MISTAKE, text=f"logged: {line}")
    for line, count in logs.lines.most_common():
        print(f"{count:8} x {line}")
    words.close()


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("aiokafka_lite.share").setLevel(os.environ.get("CHAOS_LOG", "INFO"))
    arguments = SharePlan.read(Path(sys.argv[1]))
    # Every other process runs on uvloop.
    factory = uvloop.new_event_loop if arguments.seed.endswith("odd") else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work(arguments))
