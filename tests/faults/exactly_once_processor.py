"""A process of the judged exactly-once run: a member of a group that reads, processes and writes in
transactions. `ProcessorFleet` starts and kills it. Half of them use their own loop, the others
`exactly_once`.

Argument: a `Plan` as JSON. It records each transaction before the commit, and the outcome, one line
each by one system call, so that a killed process has recorded everything that it knew:

    ready                     it has initialized its transactional id, and reads
    commits 17 480            it is about to commit transaction 17, of 480 records
    committed 17
    aborted 17
    error KafkaError          a call raised this; its transaction was aborted
    anew KafkaError           this error stopped a producer and a consumer, which were replaced
    fenced                    another process has its transactional id: it ends with status 3
    mistake ...               a violation

Each record that it writes names the process and the transaction. SIGTERM ends it cleanly.
"""

import asyncio
import json
import logging
import os
import random
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import uvloop

from aiokafka_lite import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRecord,
    TopicPartition,
    exactly_once,
)
from aiokafka_lite.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyPartitionAssignor,
)
from aiokafka_lite.errors import (
    InvalidTxnState,
    KafkaError,
    KafkaTimeoutError,
    ProducerFenced,
)
from tests.faults.exactly_once import go_back

__all__ = ["FENCED", "Plan"]

DOZES: Final = 0.01
CHANGES_MIND: Final = 0.97
"""A draw of 0 to 1 beyond it means that the transaction is aborted."""

FENCED: Final = 3
"""Exit status of a process whose transactional id another one has."""

Batches = dict[TopicPartition, list[ConsumerRecord[Any, Any]]]


@dataclass(frozen=True)
class Plan:
    """One process.

    Attributes:
        name: The name of this launch, which is unique and contains no space.
        transactional_id: Also that of its successors.
        protocol: "eager", "cooperative" or "consumer".
        session: Seconds; of the classic protocols.
        seed: The seed of the random choices.
        api: "hand" for a loop by hand, "once" for `exactly_once`; "" for a random choice.
        static: The transactional id is the `group_instance_id`, too.
    """

    bootstrap_servers: str
    name: str
    transactional_id: str
    source: str
    sink: str
    group: str
    protocol: str
    session: float
    seed: str
    journal: str
    api: str = ""
    static: bool = False

    def argument(self) -> str:
        return json.dumps(asdict(self))


class _ChangedMind(Exception):
    """The application aborts its transaction."""


class _Mistakes(logging.Handler):
    """Records log lines of the package that report a violation."""

    def __init__(self, processor: "Processor") -> None:
        super().__init__(logging.INFO)
        self._processor = processor

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.CRITICAL or record.exc_info:
            self._processor.tell("mistake", record.getMessage())


class Processor:
    """Copies from the source to the sink, one transaction after the other, until asked to end.

    Args:
        plan: The parameters of the process.
        end: Set when it is to end.
    """

    def __init__(self, plan: Plan, end: asyncio.Event) -> None:
        self._plan = plan
        self._end = end
        self._random = random.Random(plan.seed)
        self._by_hand = self._random.random() < 0.5
        if plan.api:
            self._by_hand = plan.api == "hand"
        self._transaction = 0
        self._journal = os.open(plan.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def tell(self, *words: object) -> None:
        os.write(self._journal, (" ".join(map(str, words)) + "\n").encode())

    async def run(self) -> int:
        """The exit status."""
        fenced = False
        while not self._end.is_set():
            try:
                await self._live()
            except* ProducerFenced:
                fenced = True
            except* KafkaError as errors:  # with a new producer, and a new consumer
                for error in errors.exceptions:
                    self.tell("anew", type(error).__name__)
                    logging.warning("begins anew: %s", error)
                await asyncio.sleep(0.2)
            if fenced:
                self.tell("fenced")
                return FENCED
        return 0

    def _consumer(self) -> AIOKafkaConsumer:
        plan = self._plan
        settings: dict[str, Any] = {"group_protocol": "consumer"}
        if plan.protocol != "consumer":
            session = plan.session * 1000
            settings = {"session_timeout_ms": session, "heartbeat_interval_ms": session / 6}
        if plan.static:
            settings["group_instance_id"] = plan.transactional_id
        if plan.protocol == "cooperative":
            settings["partition_assignment_strategy"] = [CooperativeStickyPartitionAssignor]
        return AIOKafkaConsumer(
            plan.source,
            bootstrap_servers=plan.bootstrap_servers,
            group_id=plan.group,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            request_timeout_ms=10_000,
            max_poll_interval_ms=int(plan.session * 2_500),
            max_poll_records=self._random.choice([200, 500, 1_000, 2_000]),
            **settings,
        )

    def _producer(self) -> AIOKafkaProducer:
        plan = self._plan
        return AIOKafkaProducer(
            bootstrap_servers=plan.bootstrap_servers,
            transactional_id=plan.transactional_id,
            transaction_timeout_ms=self._random.choice([20_000, 60_000]),
            request_timeout_ms=self._random.choice([3_000, 10_000]),
            delivery_timeout_ms=self._random.choice([12_000, 60_000]),
            max_block_ms=60_000,
            linger_ms=self._random.choice([0, 5]),
            max_batch_size=self._random.choice([2_000, 16_384, 65_536]),
            compression_type=self._random.choice([None, "lz4"]),
        )

    async def _live(self) -> None:
        consumer, producer = self._consumer(), self._producer()
        try:
            await producer.start()
            await consumer.start()
            self.tell("ready")
            if self._by_hand:
                await self._process_all(consumer, producer)
            else:
                await self._process_by_helper(consumer, producer)
        finally:
            try:
                await producer.stop(timeout=5)
            finally:
                await consumer.stop()

    async def _process_by_helper(
        self, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
    ) -> None:
        """Copy with `exactly_once`, which does not report the outcome of a transaction."""
        async with asyncio.TaskGroup() as group:
            ending = group.create_task(self._stop_at_the_end(consumer))
            while not self._end.is_set():
                try:
                    async with exactly_once(consumer, producer) as batches:
                        async for batch in batches:
                            self._transaction += 1
                            read = {part.topic_partition: part.records for part in batch.parts}
                            await self._write(producer, read, self._transaction)
                            if await self._doze() > CHANGES_MIND:
                                raise _ChangedMind
                            self.tell("commits", self._transaction, len(batch))
                except _ChangedMind:
                    self.tell("aborted", self._transaction)
            ending.cancel()

    async def _stop_at_the_end(self, consumer: AIOKafkaConsumer) -> None:
        await self._end.wait()
        await consumer.stop()

    async def _process_all(self, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer) -> None:
        while not self._end.is_set():
            batches = await consumer.getmany(timeout_ms=200)
            if batches:
                await self._process(consumer, producer, batches)

    async def _doze(self) -> float:
        """Sleep from time to time: others may own its partitions afterwards. A draw of 0 to 1."""
        draw = self._random.random()
        if draw < DOZES:
            await asyncio.sleep(self._plan.session * self._random.uniform(0.5, 3.5))
        return draw

    async def _process(
        self, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, batches: Batches
    ) -> None:
        self._transaction += 1
        number, committing = self._transaction, False
        try:
            async with producer.transaction():
                await self._write(producer, batches, number)
                draw = await self._doze()
                offsets = {tp: records[-1].offset + 1 for tp, records in batches.items()}
                await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                if draw > CHANGES_MIND:
                    raise _ChangedMind
                self.tell("commits", number, sum(map(len, batches.values())))
                committing = True
            self.tell("committed", number)
        except (ProducerFenced, InvalidTxnState):
            raise  # the producer has to be closed
        except (KafkaError, _ChangedMind) as error:
            if committing and isinstance(error, KafkaTimeoutError):
                raise  # in progress: the next user of the transactional id determines the outcome
            self.tell("aborted", number)
            self.tell("error", type(error).__name__)
            await go_back(consumer, batches)

    async def _write(self, producer: AIOKafkaProducer, batches: Batches, number: int) -> None:
        mark = f" {self._plan.name} {number}".encode()
        together = self._random.random() < 0.7
        for records in batches.values():
            values = [record.value + mark for record in records if record.value is not None]
            keys = [record.key for record in records]
            if together:
                await producer.send_many(self._plan.sink, values, keys=keys)
                continue
            for key, value in zip(keys, values, strict=True):
                await producer.send(self._plan.sink, value, key=key)


async def work(plan: Plan) -> int:
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, end.set)
    processor = Processor(plan, end)

    def mistake(_: object, context: dict[str, Any]) -> None:
        logging.error("the loop's: %s", context, exc_info=context.get("exception"))
        processor.tell("mistake", str(context["message"]))

    loop.set_exception_handler(mistake)
    logging.getLogger("aiokafka_lite").addHandler(_Mistakes(processor))
    return await processor.run()


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("aiokafka_lite.producer.transactions").setLevel(
        os.environ.get("CHAOS_LOG", "WARNING")
    )
    given = Plan(**json.loads(sys.argv[1]))
    Path(given.journal).touch()
    # Half of the processes run on uvloop.
    factory = uvloop.new_event_loop if random.Random(given.seed).random() < 0.5 else None
    with asyncio.Runner(loop_factory=factory) as runner:
        status = runner.run(work(given))
    sys.exit(status)
