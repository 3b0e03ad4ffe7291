"""The load of a consumers' chaos run: records whose values are their offsets, at a given rate."""

import asyncio
from collections.abc import Sequence

from aiokafka_lite import AIOKafkaProducer
from tests.faults.consumer_journal import Place

__all__ = ["Load"]

CHUNK = 200  # records per call
FILLER = b"." * 60


class Load:
    """Writes the numbers from 0 to each partition, as 12 digits and some more bytes.

    Args:
        topics: The topics; partitions added later are found.
        rate: Records per second in total.
        count: Number of records in total.

    Attributes:
        ends: Partition to the number of its records that are acknowledged.
    """

    def __init__(
        self, bootstrap_servers: str, topics: Sequence[str], *, rate: float, count: int
    ) -> None:
        self.ends: dict[Place, int] = {}
        self._topics, self._rate, self._count = topics, rate, count
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap_servers,
            acks="all",
            linger_ms=20,
            max_batch_size=65_536,
            compression_type="lz4",
            request_timeout_ms=5_000,
            delivery_timeout_ms=300_000,
            max_block_ms=300_000,
            metadata_max_age_ms=5_000,
        )

    async def run(self) -> None:
        """Write everything; returns when all of it is acknowledged.

        Raises:
            KafkaError: A record could not be written, so the numbers no longer equal the offsets.
        """
        loop = asyncio.get_running_loop()
        left = self._count
        async with self._producer as producer:
            began = loop.time()
            under_way: dict[Place, asyncio.Task[None]] = {}
            while left > 0:
                for topic in self._topics:
                    for partition in sorted(await producer.partitions_for(topic)):
                        place = topic, partition
                        if left <= 0 or (place in under_way and not under_way[place].done()):
                            continue
                        if place in under_way:
                            under_way[place].result()
                        under_way[place] = asyncio.create_task(self._write(place))
                        left -= CHUNK
                due = (self._count - left) / self._rate
                await asyncio.sleep(max(0.02, due - (loop.time() - began)))
            await asyncio.gather(*under_way.values())

    async def _write(self, place: Place) -> None:
        """A chunk; one at a time of a partition."""
        first = self.ends.get(place, 0)
        values = [b"%012d" % number + FILLER for number in range(first, first + CHUNK)]
        acks = await self._producer.send_many(place[0], values, partition=place[1])
        last = await acks[-1]  # those before it are stored before it, or it would not be
        assert last is not None
        assert last.offset == first + CHUNK - 1, (
            f"{place}: {last.offset} is not {first + CHUNK - 1}"
        )
        self.ends[place] = first + CHUNK
