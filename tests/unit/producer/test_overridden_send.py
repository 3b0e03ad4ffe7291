"""`send_and_wait` calls a `send` that a subclass overrides or a tracer patched, as in aiokafka."""

from collections.abc import Iterator
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried


class Stamping(AIOKafkaProducer):
    """Adds a header to each record, as applications and tracers do."""

    async def send(self, topic: str, value: Any = None, *args: Any, **kwargs: Any) -> Any:
        fields = dict(zip(("key", "partition", "timestamp_ms", "headers"), args, strict=False))
        fields.update(kwargs)
        fields["headers"] = [*(fields.get("headers") or []), ("stamp", b"1")]
        return await super().send(topic, value, **fields)


@pytest.fixture
async def cluster() -> Any:
    async with FakeCluster(topics={"orders": 2}) as running:
        yield running


@pytest.fixture
def unpatched() -> Iterator[None]:
    own = AIOKafkaProducer.send
    yield
    AIOKafkaProducer.send = own  # type: ignore[method-assign]


def headers(cluster: FakeCluster) -> list[tuple[str, bytes | None]]:
    records = [record for number in range(2) for record in cluster.records("orders", number)]
    return [header for record in records for header in record.headers]


async def test_send_and_wait_of_a_subclass_goes_through_its_send(cluster: FakeCluster) -> None:
    async with Stamping(bootstrap_servers=cluster.bootstrap_servers) as producer:
        place = await producer.send_and_wait(
            "orders", b"v", b"k", partition=1, timestamp_ms=5, headers=[("own", b"2")]
        )
    assert (place.partition, place.timestamp) == (1, 5)
    assert headers(cluster) == [("own", b"2"), ("stamp", b"1")]


async def test_send_and_wait_goes_through_a_patched_send(
    cluster: FakeCluster, unpatched: None
) -> None:
    sent: list[tuple[Any, ...]] = []
    own = AIOKafkaProducer.send

    async def traced(self: AIOKafkaProducer, *fields: Any) -> Any:
        sent.append(fields)
        return await own(self, *fields)

    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("orders", b"before")
        AIOKafkaProducer.send = traced  # type: ignore[method-assign,assignment]
        assert (await producer.send_and_wait("orders", b"patched", partition=0)).partition == 0
        AIOKafkaProducer.send = own  # type: ignore[method-assign]
        await producer.send_and_wait("orders", b"after")
    assert sent == [("orders", b"patched", None, 0, None, None)]


async def test_error_of_an_overridden_send_is_raised_by_the_await(cluster: FakeCluster) -> None:
    class Refusing(AIOKafkaProducer):
        async def send(self, *fields: Any, **more: Any) -> Any:
            raise PermissionError("refused")

    async with Refusing(bootstrap_servers=cluster.bootstrap_servers) as producer:
        waiting = producer.send_and_wait("orders", b"v")
        with pytest.raises(PermissionError, match="refused"):
            await waiting
