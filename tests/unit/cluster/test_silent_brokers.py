"""Brokers that stop responding, and are abandoned once the cluster has removed them."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiokafka_lite.cluster import silent_brokers
from aiokafka_lite.cluster.broker import Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import KafkaConnectionError
from aiokafka_lite.protocol.messages.fetch import FetchRequest, FetchResponse
from aiokafka_lite.protocol.registry import ApiKey
from tests.unit.cluster.conftest import TinyBroker, TinyKafka

TinyKafkas = Callable[..., Awaitable[TinyKafka]]
Until = Callable[..., Awaitable[None]]
Ask = Callable[..., Awaitable["asyncio.Future[FetchResponse]"]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silent_brokers, "SILENCE", 0.1)
    monkeypatch.setattr(silent_brokers, "LOOK_EVERY", 0.02)


@pytest.fixture
async def tiny(tiny_kafka: TinyKafkas) -> TinyKafka:
    tiny = await tiny_kafka(brokers=3)
    tiny.answers[ApiKey.FETCH] = lambda broker, request, version: FetchResponse()
    return tiny


@pytest.fixture
async def cluster(tiny: TinyKafka, cluster_of: Callable[..., Cluster]) -> Cluster:
    cluster = cluster_of(tiny)
    await cluster.start()
    for node_id in tiny.brokers:
        await (await ask(cluster, node_id))  # later ones are sent at once
    return cluster


async def ask(
    cluster: Cluster, node_id: int, *, held: float = 0.0
) -> "asyncio.Future[FetchResponse]":
    """Send a fetch that the broker may hold for this many seconds."""
    connection = await cluster.broker(node_id).connection(Purpose.FETCH)
    version = connection.version_of(FetchRequest)
    answer = connection.send(FetchRequest(), version, timeout=5.0 + held)
    cluster.expect_answer()
    return answer


async def test_requests_to_a_silent_broker_fail_once_the_cluster_has_removed_it(
    tiny: TinyKafka, cluster: Cluster, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    tiny.brokers[1].speaking.clear()
    answer, before = await ask(cluster, 1), len(tiny.metadata_requests)
    await until(lambda: len(tiny.metadata_requests) >= before + 3)
    assert not answer.done()  # it is still listed
    tiny.hidden.add(1)
    with pytest.raises(KafkaConnectionError, match=r"no longer lists it"):
        await asyncio.wait_for(answer, 4)  # long before the request's timeout
    assert "broker 1 at" in caplog.text
    assert "has not answered for" in caplog.text


async def test_a_broker_that_answers_is_not_left_even_if_it_is_not_listed(
    tiny: TinyKafka, cluster: Cluster, until: Until
) -> None:
    tiny.brokers[1].speaking.clear()
    silent = await ask(cluster, 1)
    connection = cluster.broker(2).connected(Purpose.FETCH)
    tiny.hidden.update((1, 2))
    with pytest.raises(KafkaConnectionError):
        await asyncio.wait_for(silent, 4)
    assert connection is not None
    assert not connection.closed


async def test_a_request_that_may_be_held_is_no_silence(
    tiny: TinyKafka, cluster: Cluster, until: Until
) -> None:
    tiny.brokers[1].speaking.clear()
    tiny.hidden.add(1)
    held, before = await ask(cluster, 1, held=1000.0), len(tiny.metadata_requests)
    tiny.brokers[2].speaking.clear()
    overdue = await ask(cluster, 2)
    await until(lambda: len(tiny.metadata_requests) >= before + 2)
    assert not held.done()
    assert not overdue.done()


async def test_metadata_is_not_refreshed_while_brokers_answer(
    tiny: TinyKafka, cluster: Cluster
) -> None:
    before = len(tiny.metadata_requests)
    for _ in range(10):
        await (await ask(cluster, 1))
        await asyncio.sleep(0.03)
    assert len(tiny.metadata_requests) == before


async def test_no_timer_is_left_when_no_answer_is_awaited(
    tiny: TinyKafka, cluster: Cluster, until: Until
) -> None:
    await (await ask(cluster, 1))
    assert cluster._silent._timer is not None
    await until(lambda: cluster._silent._timer is None)
    await (await ask(cluster, 1))
    cluster.abort()
    assert cluster._silent._timer is None


async def test_brokers_that_owe_an_answer_are_asked_last(
    tiny: TinyKafka, cluster: Cluster, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiokafka_lite.cluster.brokers.SUSPECT_AFTER", 0.05)
    tiny.brokers[1].speaking.clear()
    answer = await ask(cluster, 1)
    release = asyncio.Event()

    async def hold(broker: TinyBroker, request: object, version: int) -> FetchResponse:
        await release.wait()
        return FetchResponse()

    tiny.answers[ApiKey.FETCH] = hold
    busy = [await ask(cluster, node_id, held=1000.0) for node_id in (2, 3) for _ in range(3)]
    loop = asyncio.get_running_loop()
    await until(lambda: (cluster.broker(1).silent_for(loop.time()) or 0.0) > 0.05)
    assert cluster.least_loaded() is not cluster.broker(1)
    release.set()
    await asyncio.gather(*busy)
    assert not answer.done()
