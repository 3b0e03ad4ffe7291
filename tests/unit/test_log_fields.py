"""Attributes of log records, and the table of messages in docs/observability.md."""

import logging
import re
from pathlib import Path

import pytest

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.errors import NotLeaderForPartitionError
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.makers import until
from tests.unit.guides import Guide

PACKAGE = Path(__file__).parents[2] / "aiokafka_lite"


def fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name.startswith("kafka_")}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_lines_of_a_member_carry_its_group(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="aiokafka_lite")
    async with FakeCluster(topics={"orders": 2}) as cluster:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            client_id="c",
            group_protocol=protocol,
        )
        async with consumer:
            await consumer.getmany(timeout_ms=10)
    members = [each for each in caplog.records if each.name.endswith("membership_log")]
    assert len(members) >= 5
    for each in members:
        assert fields(each).items() >= {"kafka_client_id": "c", "kafka_group": "g"}.items()
        assert "kafka_member_id" in fields(each)
    (assigned,) = (each for each in members if "assigned" in each.message)
    assert fields(assigned)["kafka_member_id"]
    coordinators = [each for each in members if "the coordinator of group" in each.message]
    assert {fields(each)["kafka_broker"] for each in coordinators} == {0}


async def test_lines_of_an_outage_carry_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="aiokafka_lite")
    async with FakeCluster(topics={"orders": 1}) as cluster:
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, client_id="c"
        )
        async with consumer:
            cluster.kill(0)

            def seen(text: str) -> list[logging.LogRecord]:
                return [each for each in caplog.records if text in each.message]

            await until(lambda: bool(seen("no broker answers") and seen("cannot reach broker 0")))
            for each in (*seen("cannot reach broker 0"), *seen("lost: ")):
                assert fields(each) == {"kafka_client_id": "c", "kafka_broker": 0}
            assert fields(seen("no broker answers")[0]) == {"kafka_client_id": "c"}


async def test_repeated_fetch_failures_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="aiokafka_lite")
    async with FakeCluster(topics={"orders": 1}) as cluster:
        fault = cluster.control(ApiKey.FETCH, times=None, error=NotLeaderForPartitionError)
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=5
        )
        async with consumer:
            await until(lambda: fault.hits > 3)
            (line,) = (each for each in caplog.records if "Fetching" in each.message)
            expected = {"kafka_topic": "orders", "kafka_partition": 0, "kafka_broker": 0}
            assert fields(line) == expected


def test_messages_of_the_guide_exist() -> None:
    """Each documented message has the fixed words of one in the code."""
    code = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    texts = re.sub(r'"\s*\n\s*f?"', "", code)
    rows = Guide("observability.md").table("| message | level | meaning | what to do |")
    assert len(rows) > 15
    for row in rows:
        for message in re.findall(r"`([^`]+)`", row[0]):
            pieces = re.split(r"\.\.\.|\bagain\b|\b[GMNB]\b|\bT(?:-0| 0-3)?\b|[:;(]", message)
            for piece in (each.strip(" .") for each in pieces):
                if len(piece) > 3:
                    assert piece in texts, f"{piece!r} of {message!r}"
