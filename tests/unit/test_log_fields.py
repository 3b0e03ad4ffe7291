"""Attributes of log records, and the table of messages in docs/observability.md."""

import ast
import asyncio
import logging
import pickle
import re
from pathlib import Path

import pytest

from aiokafka_lite import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
    TopicPartition,
)
from aiokafka_lite.abc import ProducerInterceptor
from aiokafka_lite.admin import AIOKafkaAdminClient, ConfigResource
from aiokafka_lite.cluster.log_name import LogName, log_extra
from aiokafka_lite.errors import NotLeaderForPartitionError
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.structs import ProducerRecord
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
            assert fields(line) == {**expected, "kafka_client_id": consumer._identity()[1]}


def test_messages_of_the_guide_exist() -> None:
    """Each documented message has the fixed words of a message in the code."""
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


UNDOCUMENTED = ("spark/", "testing/", "cli/")
"""Their messages have other readers: those of Spark's logs, of tests, of terminals."""

LEVELS = {"warning": "WARNING", "error": "ERROR", "exception": "ERROR", "critical": "CRITICAL"}

COMPUTED = {
    ("cluster/cluster.py", "_on_task_error"): "refresh metadata",
    ("cluster/refresh/refresh_task.py", "_on_answer"): "a broker answers again",
    ("cluster/refresh/refresh_task.py", "_refresh"): "no broker answers",
    ("consumer/commits/auto_commit.py", "_log_failed"): "the last auto-commit",
    ("consumer/core.py", "_on_task_error"): "... crashed",
    ("read_process_write.py", "_on_task_error"): "exactly_once",
    ("read_process_write.py", "_waited_for"): "did not complete within max_block_ms",
    ("producer/producer_interceptors.py", "_log_failure"): "on_acknowledgement() of",
    ("share/loss_log.py", "_write"): "were not acknowledged",
    ("share/share_core.py", "_on_task_error"): "... crashed",
}
"""The text of the line if its format has no fixed words."""


def log_calls() -> list[tuple[str, str, str, str]]:
    """(file, function, level, format) of each line at WARNING or above."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(UNDOCUMENTED):
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            texts = {
                target.id: ast.unparse(node.value)
                for node in ast.walk(function)
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in {
                    *(f"log.{level}" for level in LEVELS)
                }:
                    text = ast.unparse(node.args[0])
                    level = LEVELS[ast.unparse(node.func).removeprefix("log.")]
                    found.append((name, function.name, level, texts.get(text, text)))
    return found


def test_each_warning_and_error_is_in_the_guide() -> None:
    rows = Guide("observability.md").table("| message | level | meaning | what to do |")
    calls = log_calls()
    assert len(calls) > 50
    missing, used = [], set()
    for file, function, level, text in calls:
        pieces = re.split(r"%[-\d.]*[a-z]|[;:]|^['\"]|['\"]$", text)
        words = [piece.strip(" .:;,()'\"") for piece in pieces]
        if (file, function) in COMPUTED:
            words.append(COMPUTED[file, function])
            used.add((file, function))
        known = [
            row
            for row in rows
            if level in row[1] and any(len(each) >= 8 and each in row[0] for each in words)
        ]
        if not known:
            missing.append((file, function, level, text))
    assert missing == []
    assert used == COMPUTED.keys()


class Failing(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise LookupError


async def test_lines_of_a_producer_carry_its_names(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            client_id="p",
            transactional_id="t",
            interceptors=[Failing()],
        )
        async with producer:
            await producer.begin_transaction()
            for _ in range(3):  # one line
                await producer.send("orders", b"one")
            cluster.control(ApiKey.END_TXN, times=None, drop=True)
            await producer.stop(0.01)
    lines = [each for each in caplog.records if each.name.startswith("aiokafka_lite.producer")]
    assert sum("on_send() of" in each.message for each in lines) == 1
    assert len(lines) > 1
    for each in lines:
        expected = {"kafka_client_id": "p", "kafka_transactional_id": "t"}
        if "on_send() of" in each.message:
            expected["kafka_topic"] = "orders"
        assert fields(each) == expected
        assert each.message.startswith("p")


async def test_lines_of_a_share_consumer_carry_its_group(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(value: bytes) -> bytes:
        raise LookupError

    async with FakeCluster(topics={"orders": 1}) as cluster:
        cluster.produce("orders", b"one")
        async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            configs = {"share.auto.offset.reset": "earliest"}
            await admin.alter_configs([ConfigResource("group", "g", configs=configs)])
        async with AIOKafkaShareConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            client_id="s",
            value_deserializer=refuse,
        ) as consumer:
            reading = asyncio.ensure_future(consumer.getone())
            await until(lambda: any("cannot be deserialized" in each for each in caplog.messages))
            reading.cancel()
            await asyncio.wait({reading})
    (line,) = (each for each in caplog.records if "cannot be deserialized" in each.message)
    assert fields(line) == {
        "kafka_client_id": "s",
        "kafka_group": "g",
        "kafka_topic": "orders",
        "kafka_partition": 0,
    }


def test_a_name_in_the_log_is_a_plain_str_elsewhere() -> None:
    name = LogName("c (group g)", client_id="c", group="g")
    assert name == "c (group g)"
    assert log_extra(name, TopicPartition("t", 1), broker=2) == {
        "kafka_client_id": "c",
        "kafka_group": "g",
        "kafka_topic": "t",
        "kafka_partition": 1,
        "kafka_broker": 2,
    }
    assert log_extra("plain") == {}
    assert name.fields == {"kafka_client_id": "c", "kafka_group": "g"}
    assert type(pickle.loads(pickle.dumps(name))) is str
