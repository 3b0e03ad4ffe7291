"""A topic that is deleted and created again, under the clients that use it.

Each creation begins a life of the topic. A producer and a transactional producer write to it all
the time; a consumer of each group protocol and a share group read it. Records are numbered, and
the ledger knows the life in which each was sent. Whatever happens to the topic,

- each record that was acknowledged in a life, up to some time before that life ends, is delivered
  to every group before it ends;
- a consumer receives the records of a producer in order in each partition, starting with the first
  of each life;
- a record that a consumer has received before arrives at the same offset, unless it was stored
  again in a later life: a batch whose acknowledgement was lost with the topic is sent once more;
- the last life's log holds each acknowledged record of that life once, at the offset that was
  reported, no record whose error states that it was not written, and complete transactions only.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka_lite import (
    AIOKafkaAdminClient,
    AIOKafkaConsumer,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
)
from aiokafka_lite.admin import ConfigResource, NewTopic
from aiokafka_lite.errors import (
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from tests.faults.ledger import claims_not_written
from tests.faults.schedule import Happenings

__all__ = ["Lives", "play_recreations"]

TOPIC: Final = "phoenix"
PARTITIONS: Final = 3
SETTLE: Final = 240.0  # seconds until every group has received all acknowledged records
LIFE: Final = (25.0, 60.0)  # seconds
GONE: Final = (0.0, 5.0)  # seconds without the topic
PAUSE: Final = 0.05  # seconds between two rounds of a producer
SHARE_GROUP: Final = "phoenix-share"
COMMAND: Final = 300.0  # seconds until deleting or creating a topic has succeeded


@dataclass
class Sent:
    """One record.

    Attributes:
        life: The topic's when it was sent.
        lane: The producer and the partition, whose records have an order.
        acknowledged: The offset, and the life then; None if it was not acknowledged.
        not_written: Its error says so.
    """

    life: int
    lane: tuple[str, int]
    acknowledged: tuple[int, int] | None = None
    not_written: bool = False


@dataclass
class Lives:
    """The ledger.

    Attributes:
        life: The topic's, from 1; 0 before the first.
        sent: Records by number.
        gone: True from the topic's deletion until it was created again.
        given: By group, the number of each record that it was given, with the offset, the life,
            and whether the topic was gone.
        counts: Of events.
    """

    life: int = 0
    gone: bool = False
    sent: list[Sent] = field(default_factory=list)
    given: dict[str, dict[int, tuple[int, int, bool]]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _latest: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def send(self, producer: str, partition: int) -> int:
        """The number of a new record."""
        self.sent.append(Sent(self.life, (producer, partition)))
        return len(self.sent) - 1

    def acknowledge(self, number: int, offset: int) -> None:
        """The producer reported its offset."""
        self.sent[number].acknowledged = offset, self.life
        self.counts["acknowledged"] += 1

    def fail(self, number: int, error: BaseException) -> None:
        """Its acknowledgement raised."""
        self.sent[number].not_written = claims_not_written(error)
        self.counts[f"failed with {type(error).__name__}"] += 1

    def give(self, group: str, partition: int, offset: int, number: int, ordered: bool) -> None:
        """A member of the group was given a record."""
        before = self.given.setdefault(group, {}).get(number)
        record = self.sent[number]
        if record.lane[1] != partition:
            self.wrong.append(f"{group}: record {number} of {record.lane} is in {partition}")
        if before is None:
            self.counts[f"given to {group}"] += 1
        elif before[0] != offset and before[1:] == (self.life, False) and not self.gone:
            self.wrong.append(f"{group}: record {number} is at {before[0]} and at {offset}")
        else:
            self.counts[f"given again to {group}"] += 1
        self.given[group][number] = offset, self.life, self.gone
        if not ordered:
            return
        lane = (group, *record.lane)
        latest = self._latest.get(lane, -1)
        if before is None and number < latest:
            self.wrong.append(
                f"{group}: record {number} of {record.lane} was first given after {latest}"
            )
        self._latest[lane] = max(latest, number)

    def settled(self) -> list[int]:
        """The records that this life has acknowledged so far."""
        return [
            number
            for number, record in enumerate(self.sent)
            if record.acknowledged is not None
            and record.acknowledged[1] == record.life == self.life
        ]

    def lacking(self, settled: list[int], groups: list[str]) -> dict[str, list[int]]:
        """The records among these that groups have not received."""
        found = {
            group: [number for number in settled if number not in self.given.get(group, {})]
            for group in groups
        }
        return {group: numbers for group, numbers in found.items() if numbers}

    def judge(
        self, log: dict[int, list[tuple[int, int]]], transactions: list[list[int]]
    ) -> list[str]:
        """All problems, given the last life's log.

        Args:
            log: Offset and number of each record, by partition.
            transactions: The numbers of the records of each transaction.
        """
        wrong, places = list(self.wrong), {}
        latest: dict[tuple[str, int], int] = {}
        for partition, records in log.items():
            for offset, number in records:
                record = self.sent[number]
                if number in places:
                    wrong.append(f"record {number} is stored twice in {partition}")
                places[number] = offset
                if latest.get(record.lane, -1) > number:
                    wrong.append(f"record {number} of {record.lane} is stored out of order")
                latest[record.lane] = number
                if record.not_written:
                    wrong.append(f"record {number} is stored, and its error denies that")
                if record.life < self.life - 1:
                    wrong.append(f"record {number} of life {record.life} is in the last log")
        for number, record in enumerate(self.sent):
            if record.life == self.life and record.acknowledged is not None:
                offset = record.acknowledged[0]
                if places.get(number) != offset:
                    wrong.append(f"record {number} was acknowledged at {offset}, and is not there")
        for numbers in transactions:
            stored = sum(number in places for number in numbers)
            if stored not in (0, len(numbers)) and self.sent[numbers[0]].life == self.life:
                wrong.append(f"{stored} of a transaction's {len(numbers)} records are stored")
        return wrong


class Clients:
    """The clients of the topic.

    Args:
        bootstrap: Of the cluster.
        lives: The ledger.
        share: With a share group, which Kafka 3.9 does not have.
        modern: With a consumer of the KIP-848 protocol.
    """

    def __init__(self, bootstrap: str, lives: Lives, *, share: bool, modern: bool) -> None:
        self._bootstrap, self._lives = bootstrap, lives
        self.end = asyncio.Event()
        self.transactions: list[list[int]] = []
        self._readers: dict[str, Callable[[str], Awaitable[None]]] = {"phoenix-classic": self._read}
        if modern:
            self._readers["phoenix-consumer"] = self._read
        if share:
            self._readers[SHARE_GROUP] = self._share

    @property
    def groups(self) -> list[str]:
        """The groups that read."""
        return list(self._readers)

    def start(self, group: asyncio.TaskGroup) -> None:
        """Let them work until `end` is set."""
        group.create_task(self._keep("producer", self._produce))
        group.create_task(self._transact())
        for name, read in self._readers.items():
            group.create_task(self._keep(name, read))

    async def _keep(self, name: str, read: Callable[[str], Awaitable[None]]) -> None:
        """Read until the end, also if faults outlast a start."""
        while not self.end.is_set():
            try:
                await read(name)
            except KafkaError as error:
                self._lives.counts[f"start of {name}: {type(error).__name__}"] += 1

    def _producer(self, **settings: Any) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            request_timeout_ms=5_000,
            delivery_timeout_ms=30_000,
            max_block_ms=30_000,
            **settings,
        )

    async def _produce(self, _: str) -> None:
        lives, sends = self._lives, set[asyncio.Task[None]]()
        async with self._producer() as producer:
            while not self.end.is_set():
                for partition in range(PARTITIONS):
                    number = lives.send("plain", partition)
                    try:
                        ack = await producer.send(TOPIC, b"%d" % number, partition=partition)
                    except KafkaError as error:
                        lives.sent[number].not_written = True  # it was never in a batch
                        lives.counts[f"refused with {type(error).__name__}"] += 1
                    else:
                        task = asyncio.create_task(self._settle(number, ack))
                        sends.add(task)
                        task.add_done_callback(sends.discard)
                await asyncio.sleep(PAUSE)
            await asyncio.gather(*sends)

    async def _settle(self, number: int, ack: Any) -> None:
        try:
            self._lives.acknowledge(number, (await ack).offset)
        except KafkaError as error:
            self._lives.fail(number, error)

    async def _transact(self) -> None:
        while not self.end.is_set():
            try:
                async with self._producer(
                    transactional_id="phoenix", transaction_timeout_ms=20_000
                ) as producer:
                    while not self.end.is_set():
                        await self._transaction(producer)
                        await asyncio.sleep(PAUSE)
            except KafkaError as error:
                self._lives.counts[f"transactional producer: {type(error).__name__}"] += 1
                await asyncio.sleep(0.5)

    async def _transaction(self, producer: AIOKafkaProducer) -> None:
        """A record for each partition; acknowledged when the transaction is committed."""
        lives = self._lives
        numbers = [lives.send("transactional", partition) for partition in range(PARTITIONS)]
        self.transactions.append(numbers)
        life, offsets, committing = lives.life, list[int](), False
        try:
            async with producer.transaction():
                acks = [
                    await producer.send(TOPIC, b"%d" % number, partition=partition)
                    for partition, number in enumerate(numbers)
                ]
                offsets = [(await ack).offset for ack in acks]
                committing = True
        except KafkaError as error:
            lives.counts[f"transaction: {type(error).__name__}"] += 1
            for number in numbers:
                lives.sent[number].not_written = not committing
            if committing:
                raise  # its outcome is known to the next producer
            return
        if life == lives.life:
            for number, offset in zip(numbers, offsets, strict=True):
                lives.acknowledge(number, offset)

    async def _read(self, group: str) -> None:
        settings: dict[str, Any] = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000}
        if group.endswith("consumer"):
            settings = {"group_protocol": "consumer"}
        async with AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=self._bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            request_timeout_ms=10_000,
            metadata_max_age_ms=5_000,
            **settings,
        ) as consumer:
            while not self.end.is_set():
                try:
                    found = await consumer.getmany(timeout_ms=500)
                except KafkaError as error:
                    self._lives.counts[f"{group}: {type(error).__name__}"] += 1
                    await asyncio.sleep(0.2)
                    continue
                for tp, records in found.items():
                    for record in records:
                        number = int(record.value or b"")
                        self._lives.give(group, tp.partition, record.offset, number, True)

    async def _share(self, group: str) -> None:
        async with AIOKafkaShareConsumer(
            TOPIC,
            bootstrap_servers=self._bootstrap,
            group_id=group,
            request_timeout_ms=10_000,
            metadata_max_age_ms=5_000,
        ) as consumer:
            while not self.end.is_set():
                try:
                    found = await consumer.getmany(timeout_ms=500)
                    for record in found:
                        number = int(record.value or b"")
                        self._lives.give(group, record.partition, record.offset, number, False)
                        record.accept()
                except KafkaError as error:
                    self._lives.counts[f"{group}: {type(error).__name__}"] += 1
                    await asyncio.sleep(0.2)


async def play_recreations(
    bootstrap: str, seed: int, seconds: float, happenings: Happenings, *, share: bool, modern: bool
) -> list[str]:
    """Recreate the topic repeatedly for some time; return the problems.

    Args:
        bootstrap: Of the cluster.
        seed: Of the times.
        seconds: The duration.
        happenings: Counts "recreate".
        share: As for `Clients`.
        modern: As for `Clients`.
    """
    lives, draw = Lives(), random.Random(f"recreations {seed}")
    clients = Clients(bootstrap, lives, share=share, modern=modern)
    async with AIOKafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        await _create(admin)
        if share:
            resource = ConfigResource("group", SHARE_GROUP)
            changes = {
                "share.auto.offset.reset": "earliest",
                "share.isolation.level": "read_committed",
            }
            (await admin.incremental_alter_configs({resource: changes})).raise_for_errors()
        lives.life = 1
        deadline = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            clients.start(group)
            while True:
                await asyncio.sleep(draw.uniform(*LIFE))
                if not await _everything_is_given(lives, clients.groups, happenings):
                    break
                if time.monotonic() > deadline and lives.life > 1:
                    break
                lives.gone = True
                await _command(lambda: admin.delete_topics([TOPIC]), UnknownTopicOrPartitionError)
                await asyncio.sleep(draw.uniform(*GONE))
                await _create(admin)
                lives.life, lives.gone = lives.life + 1, False
                happenings.count["recreate"] += 1
            clients.end.set()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="phoenix"):
        pass  # the open transaction is aborted
    log = await _log(bootstrap)
    wrong = lives.judge(log, clients.transactions)
    happenings.tell(f"{lives.life} lives, {len(lives.sent)} records, {dict(lives.counts)}")
    return wrong


async def _everything_is_given(lives: Lives, groups: list[str], happenings: Happenings) -> bool:
    """Wait until all groups have received the records that this life has acknowledged so far;
    False after a timeout."""
    deadline = time.monotonic() + SETTLE
    while not (settled := lives.settled()):
        if time.monotonic() > deadline:
            lives.wrong.append(f"no record of life {lives.life} was acknowledged in that life")
            return False
        await asyncio.sleep(0.2)
    while lacking := lives.lacking(settled, groups):
        if time.monotonic() > deadline:
            for group, numbers in lacking.items():
                lives.wrong.append(
                    f"{group} was not given {len(numbers)} of {len(settled)} records of life "
                    f"{lives.life} within {SETTLE:.0f} s, the first of which is {numbers[0]}"
                )
            return False
        await asyncio.sleep(0.2)
    happenings.tell(f"life {lives.life}: {len(settled)} records are given to {len(groups)} groups")
    return True


async def _create(admin: AIOKafkaAdminClient) -> None:
    new = NewTopic(TOPIC, PARTITIONS, 3)
    await _command(lambda: admin.create_topics([new], timeout_ms=30_000), TopicAlreadyExistsError)


async def _command(command: Callable[[], Awaitable[Any]], done: type[KafkaError]) -> None:
    """Repeat an administrator's command until it has succeeded.

    Args:
        done: The error that shows that an earlier attempt, by the client or by this function, has
        succeeded.
    """
    deadline = time.monotonic() + COMMAND
    while True:
        try:
            (await command()).raise_for_errors()
        except done:
            return
        except KafkaError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(1.0)
        else:
            return


async def _log(bootstrap: str) -> dict[int, list[tuple[int, int]]]:
    """Offset and number of each committed record, by partition."""
    found: dict[int, list[tuple[int, int]]] = {number: [] for number in range(PARTITIONS)}
    async with AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        partitions = consumer.assignment()
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(tp) < ends[tp] for tp in partitions]):
            for tp, records in (await consumer.getmany(timeout_ms=1000)).items():
                found[tp.partition] += [
                    (record.offset, int(record.value or b"")) for record in records
                ]
    return found
