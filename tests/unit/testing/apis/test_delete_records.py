"""DeleteRecords: the new log start offsets, and errors."""

import pytest

from aiokafka_lite.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from aiokafka_lite.record.header import BatchHeader
from tests.unit.testing.raw import NOW_MS, SocketlessBroker, make_batch


def delete(
    broker: SocketlessBroker, *offsets: int, topic: str = "orders", version: int = 2, node: int = 0
) -> list[tuple[int, int]]:
    """(low watermark, error) of each partition, from 0 on."""
    wanted = [DeleteRecordsPartition(index, offset) for index, offset in enumerate(offsets)]
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, wanted)], 1000)
    (answer,) = broker.ask(request, version, node).topics
    return [(each.low_watermark, each.error_code) for each in answer.partitions]


def fill(broker: SocketlessBroker, topic: str = "orders", **configs: str) -> None:
    names = {name.replace("_", "."): value for name, value in configs.items()}
    made = broker.state.create_topic(topic, 2, configs=names)
    batch = make_batch(*[(NOW_MS, b"k", b"v")] * 5)
    made.partitions[0].append(memoryview(batch), BatchHeader.read(batch), 1, NOW_MS)


@pytest.mark.parametrize("version", range(3))
def test_the_log_begins_later_and_never_earlier(broker: SocketlessBroker, version: int) -> None:
    fill(broker)
    answers = [delete(broker, offset, version=version) for offset in (2, 1, 5, 0, -1)]
    assert answers == [[(2, 0)], [(2, 0)], [(5, 0)], [(5, 0)], [(5, 0)]]


def test_what_is_refused(three_brokers: SocketlessBroker) -> None:
    broker = three_brokers
    fill(broker)
    fill(broker, "compacted", cleanup_policy="compact")
    fill(broker, "both", cleanup_policy="compact,delete")
    fill(broker, "__consumer_offsets")
    assert delete(broker, 6, 0, 0) == [(-1, 1), (-1, 6), (-1, 3)]
    assert delete(broker, -2) == [(-1, 1)]
    assert delete(broker, 1, node=1) == [(-1, 6)]
    assert delete(broker, 1, topic="compacted") == [(-1, 44)]
    assert delete(broker, 1, topic="both") == [(1, 0)]
    assert delete(broker, 1, topic="__consumer_offsets") == [(-1, 17)]
    assert delete(broker, 1, topic="no-such") == [(-1, 3)]
