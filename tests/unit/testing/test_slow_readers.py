"""Data read from a log does not change, whatever happens to the log meanwhile."""

from random import Random

import pytest

from aiokafka_lite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.seeds import seeds
from tests.unit.testing.raw import NOW_MS, SocketlessBroker, make_batch
from tests.unit.testing.server.test_broker_server import produce_to

CONFIGS = {
    "cleanup.policy": "compact,delete",
    "segment.bytes": "1048576",
    "retention.bytes": "3000",
    "min.cleanable.dirty.ratio": "0",
}
HELD = 50


@pytest.mark.parametrize("seed", seeds(3))
def test_truncation_compaction_and_retention_harm_no_reader(seed: int) -> None:
    chance, broker = Random(seed), SocketlessBroker()
    topic = broker.state.create_topic("orders", 1, configs=CONFIGS)
    partition = topic.partitions[0]
    held: list[tuple[memoryview, bytes]] = []
    for _ in range(500):
        within = chance.randint(partition.log.start_offset, partition.log.end_offset)
        match chance.choices(
            ("append", "read", "truncate", "compact", "retain"), (50, 35, 6, 4, 5)
        ):
            case ["append"]:
                key = bytes([chance.randrange(97, 103)])
                batch = make_batch((NOW_MS, key, chance.randbytes(chance.randrange(600))))
                append(broker, batch)
            case ["read"]:
                view = memoryview(partition.log.read(within, chance.randint(1, 5000)))
                held = [*held[-HELD:], (view, bytes(view))]
                wanted = FetchPartition(0, fetch_offset=within, partition_max_bytes=5000)
                topics = [FetchTopic("orders", partitions=[wanted])]
                request = FetchRequest(max_wait_ms=0, topics=topics)
                (answer,) = broker.ask(request, 11).responses[0].partitions
                assert answer.error_code == 0
            case ["truncate"]:
                partition.truncate(within)
            case ["compact"]:
                broker.state.compact("orders")
            case _:
                broker.state.apply_retention()
        assert all(view == copy for view, copy in held)
    assert partition.log.start_offset > 0


def append(broker: SocketlessBroker, batch: bytes) -> None:
    (told,) = broker.ask(produce_to(0, batch), 9).responses[0].partition_responses
    assert told.error_code == 0
