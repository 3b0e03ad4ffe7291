"""Workers that keep sending in transactions despite faults, and what must be readable at the
end."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import KafkaError

TOPIC, PARTITIONS = "orders", 6
READ_FROM = TopicPartition("input", 0)


class Worker:
    """One transactional id, whichever process uses it, and the outcome of each transaction.

    Args:
        bootstrap: The cluster's address.
        name: The transactional id.
        seed: The seed of all random choices.
        request_timeout: Seconds.
        delivery_timeouts: Seconds; each life has one of them.
    """

    def __init__(
        self,
        bootstrap: str | list[str],
        name: str,
        seed: int,
        *,
        request_timeout: float,
        delivery_timeouts: Sequence[float],
    ) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.group = f"group of {name}"
        self.random = Random(f"{seed} {name}")
        self.told: dict[int, str] = {}
        self.sent: Counter[int] = Counter()  # records, by transaction
        self.offset: int | None = None  # of the last transaction that was committed
        self.lives = 0
        self.errors: Counter[str] = Counter()
        self._request_timeout = request_timeout
        self._delivery_timeouts = delivery_timeouts

    async def run(self, end: asyncio.Event) -> None:
        """Run one producer after the other."""
        while not end.is_set():
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                transactional_id=self.name,
                request_timeout_ms=self._request_timeout * 1000,
                delivery_timeout_ms=self.random.choice(self._delivery_timeouts) * 1000,
                retry_backoff_ms=10,
                max_block_ms=max(30_000, self._request_timeout * 10_000),
                max_batch_size=self.random.choice([200, 16_384]),
                linger_ms=self.random.choice([0, 5]),
            )
            self.lives += 1
            try:
                await producer.start()
                await self._live(producer, end)
            except KafkaError as error:
                self.errors[f"fatal {type(error).__name__}"] += 1
            finally:
                if self.random.random() < 0.5:
                    producer._sender.abort()  # as with SIGKILL: nothing is sent
                await producer.stop(timeout=1)

    async def _live(self, producer: AIOKafkaProducer, end: asyncio.Event) -> None:
        for _ in range(self.random.randint(1, 60)):
            if end.is_set():
                return
            number = len(self.told)
            self.told[number] = "unknown"
            await producer.begin_transaction()
            try:
                await self._send(producer, number)
                if self.random.random() < 0.2:
                    await producer.abort_transaction()
                    self.told[number] = "aborted"
                    continue
                await producer.commit_transaction()
            except KafkaError as error:
                self.errors[type(error).__name__] += 1
                await producer.abort_transaction()
                self.told[number] = "aborted"
            else:
                self.told[number] = "committed"
                self.offset = number

    async def _send(self, producer: AIOKafkaProducer, number: int) -> None:
        for record in range(self.random.randint(1, 20)):
            partition = self.random.randrange(PARTITIONS)
            value = f"{self.name} {number} {record}".encode()
            await producer.send(TOPIC, value, partition=partition)
            self.sent[number] += 1
        offsets = {READ_FROM: number}
        await producer.send_offsets_to_transaction(offsets, self.group)


async def settle(workers: Sequence[Worker]) -> None:
    """Abort the transaction that was left open, as a successor does."""
    for worker in workers:
        async with AIOKafkaProducer(
            bootstrap_servers=worker.bootstrap, transactional_id=worker.name
        ):
            pass


async def read(
    bootstrap: str | list[str], ends: Mapping[TopicPartition, int], within: float
) -> Counter[tuple[str, int]]:
    """Count the records of each transaction that a read_committed consumer sees; all are in order.

    Args:
        ends: The ends of the logs; the consumer would never pass an open transaction.
        within: Seconds.
    """
    found: Counter[tuple[str, int]] = Counter()
    last: dict[tuple[TopicPartition, str], tuple[int, int]] = {}
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.assign(list(ends))
        async with asyncio.timeout(within):
            while any([await consumer.position(place) < ends[place] for place in ends]):
                for place, records in (await consumer.getmany(timeout_ms=50)).items():
                    for record in records:
                        assert record.value is not None
                        name, number, part = record.value.decode().split()
                        here = (int(number), int(part))
                        assert last.get((place, name), (-1, -1)) < here, "out of order, or twice"
                        last[place, name] = here
                        found[name, int(number)] += 1
    return found


def judge(worker: Worker, records: Counter[tuple[str, int]], offset: int | None) -> None:
    """Compare the outcomes that a worker received with what is stored.

    Args:
        records: The records that were read.
        offset: The offset that its group has committed.
    """
    for number, told in worker.told.items():
        seen, sent = records[worker.name, number], worker.sent[number]
        if told == "committed":
            assert seen == sent, f"{worker.name} {number}: {seen} of {sent} were committed"
        elif told == "aborted":
            assert seen == 0, f"{worker.name} {number}: {seen} of an aborted one"
        else:
            assert seen in (0, sent), f"{worker.name} {number}: {seen} of {sent}"
    if offset != worker.offset:  # a later one, whose outcome is unknown
        assert offset is not None
        assert offset > (-1 if worker.offset is None else worker.offset)
        assert worker.told[offset] == "unknown"
        assert records[worker.name, offset] == worker.sent[offset]


async def committed_offset(worker: Worker) -> int | None:
    async with AIOKafkaConsumer(
        bootstrap_servers=worker.bootstrap, group_id=worker.group, enable_auto_commit=False
    ) as consumer:
        consumer.assign([READ_FROM])
        return await consumer.committed(READ_FROM)
