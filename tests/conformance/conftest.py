"""`compare`: one scenario on the embedded broker and on a real Kafka; both must agree.

    async def test_heartbeats(compare: Compare) -> None:
        async def scenario(target: Target) -> None:
            topic = await target.topic(partitions=2)
            await target.ask(HeartbeatRequest(target.unique("group")), 4)

        await compare(scenario)

A failure reports the step, the first field that differs, both values and the request. The
permitted differences are listed in `differences.py`, each with its reason.
"""

import asyncio
import contextlib
import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from aiokafka_lite.testing import FakeCluster
from tests.conformance.comparing import AllowedDifferences, report
from tests.conformance.secured import SUPER_USERS, USERS, SecuredTarget, guarded_kafka
from tests.conformance.target import Scenario, Target
from tools.kafka import KafkaCluster, KafkaNotAvailable, OwnCluster, RealKafka

HERE = Path(__file__).parent

AS_THE_HARNESS: Final = {
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.min.session.timeout.ms": 3000,
    "group.share.heartbeat.interval.ms": 500,
    "group.share.min.heartbeat.interval.ms": 500,
    "group.share.min.record.lock.duration.ms": 1000,
    "log.retention.ms": -1,
    "log.segment.delete.delay.ms": 1000,
}
"""The harness's configurations of its real brokers that show in a topic's or a group's settings,
or in a heartbeat response."""
DEFAULTS: Final = {"check_records": True, "broker_configs": AS_THE_HARNESS}


class Compare(Protocol):
    """Runs a scenario on both; the options are the embedded cluster's."""

    def __call__(self, scenario: Scenario, **options: Any) -> Awaitable[None]: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        asks = HERE in item.path.parents and isinstance(item, pytest.Function)
        if asks and inspect.iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_factories=["asyncio"]))


@pytest.fixture
def allowed(request: pytest.FixtureRequest) -> AllowedDifferences:
    return AllowedDifferences(request.node.name)


@pytest.fixture
async def compare(
    kafka: RealKafka, request: pytest.FixtureRequest, allowed: AllowedDifferences
) -> AsyncIterator[Compare]:
    """`await compare(scenario)`: one embedded broker against the run's Kafka."""

    async def run(scenario: Scenario, **options: Any) -> None:
        async with FakeCluster(**{**DEFAULTS, **options}) as fake:
            suffix = uuid.uuid4().hex[:10]
            judge = Target("Kafka", kafka.bootstrap_servers, suffix)
            judged = Target("embedded", fake.bootstrap_servers, suffix)
            await _judge(request.node.name, scenario, judge, judged, allowed)

    yield run
    _refuse_unused(allowed)


@pytest.fixture
async def compare3(
    kafka3: OwnCluster, request: pytest.FixtureRequest, allowed: AllowedDifferences
) -> AsyncIterator[Compare]:
    """`compare` with three brokers each, which a scenario may kill and restart."""

    async def run(scenario: Scenario, **options: Any) -> None:
        async with FakeCluster(3, **{**DEFAULTS, **options}) as fake:

            async def kill(node_id: int) -> None:
                fake.kill(node_id)

            async def kill_process(node_id: int) -> None:
                await asyncio.to_thread(kafka3.kill, node_id)

            async def restart_process(node_id: int) -> None:
                await asyncio.to_thread(kafka3.start, node_id)

            suffix = uuid.uuid4().hex[:10]
            judge = Target(
                *("Kafka", kafka3.bootstrap_servers, suffix),
                kill=kill_process,
                restart=restart_process,
            )
            judged = Target(
                *("embedded", fake.bootstrap_servers, suffix), kill=kill, restart=fake.restart
            )
            await _judge(request.node.name, scenario, judge, judged, allowed)

    yield run
    _refuse_unused(allowed)


@pytest.fixture(scope="session")
def guarded() -> Iterator[KafkaCluster]:
    """A real Kafka with users and ACLs, shared by the run."""
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(guarded_kafka())
        except KafkaNotAvailable as error:
            pytest.skip(f"no real Kafka: {error}")
        yield cluster


@pytest.fixture
async def compare_guarded(
    guarded: KafkaCluster, request: pytest.FixtureRequest, allowed: AllowedDifferences
) -> AsyncIterator[Compare]:
    """`compare` for clusters with authentication; see `secured`."""

    async def run(scenario: Scenario, **options: Any) -> None:
        secured = {**DEFAULTS, "users": USERS, "super_users": SUPER_USERS, **options}
        async with FakeCluster(**secured) as fake:
            suffix = uuid.uuid4().hex[:10]
            judge = SecuredTarget("Kafka", guarded.bootstrap_of("SASL_PLAINTEXT"), suffix)
            judged = SecuredTarget("embedded", fake.bootstrap_servers, suffix)
            await _judge(request.node.name, scenario, judge, judged, allowed)

    yield run
    _refuse_unused(allowed)


async def _judge(
    name: str, scenario: Scenario, judge: Target, judged: Target, allowed: AllowedDifferences
) -> None:
    try:
        raised = await asyncio.gather(
            *(scenario(target) for target in (judge, judged)), return_exceptions=True
        )
    finally:
        await asyncio.gather(judge.close(), judged.close())
    told = report(name, judge, judged, allowed, (raised[0], raised[1]))
    if told is not None:
        allowed.on_failure()
        pytest.fail(told, pytrace=False)


def _refuse_unused(allowed: AllowedDifferences) -> None:
    if allowed.unused:
        pytest.fail(f"listed in differences.py, but did not occur: {allowed.unused}", pytrace=False)
