"""Records of a started producer wait while it and the brokers fail to authenticate.

This happens while certificates or credentials are replaced. As in Java's producer, records fail
only after `delivery_timeout_ms`.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import AuthenticationFailedError, DeliveryTimeoutError
from aiokafka_lite.producer.sending.transactional_sender import TransactionalSender
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.certificates import Authority

PARTITION = TopicPartition("orders", 0)


class Guarded:
    """A cluster that can reject its clients, or be rejected by them.

    Attributes:
        options: The options of the clients.
        reject: Makes each new connection fail with AuthenticationFailedError.
        accept: Makes new connections succeed again.
    """

    def __init__(
        self,
        cluster: FakeCluster,
        options: dict[str, Any],
        reject: Callable[[], object],
        accept: Callable[[], object],
    ) -> None:
        self.cluster = cluster
        self.options = {"bootstrap_servers": cluster.bootstrap_servers, **options}
        self.accept = accept
        self._reject = reject

    async def reject(self, producer: AIOKafkaProducer) -> None:
        """Reject new connections and close the others; wait until the producer has detected it."""
        self._reject()
        self.cluster.disconnect()
        async with asyncio.timeout(60):
            while not isinstance(producer._cluster.last_error, AuthenticationFailedError):
                producer._cluster.request_update()
                await asyncio.sleep(0.01)


@asynccontextmanager
async def untrusted_certificate(folder: Path) -> AsyncIterator[Guarded]:
    trusted, other = Authority(folder / "trusted"), Authority(folder / "other")
    good, bad = trusted.issue("broker"), other.issue("broker")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(good.cert, good.key)
    async with FakeCluster(topics=["orders"], ssl_context=serving) as cluster:
        yield Guarded(
            cluster,
            {"security_protocol": "SSL", "ssl_cafile": trusted.cert},
            lambda: serving.load_cert_chain(bad.cert, bad.key),
            lambda: serving.load_cert_chain(good.cert, good.key),
        )


@asynccontextmanager
async def rejected_password(folder: Path) -> AsyncIterator[Guarded]:
    async with FakeCluster(topics=["orders"], users={"alice": "secret"}) as cluster:
        users = cluster.state.users
        options = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": "alice",
            "sasl_plain_password": "secret",
        }
        yield Guarded(
            cluster,
            options,
            lambda: users.put("alice", "another"),
            lambda: users.put("alice", "secret"),
        )


OUTAGES = pytest.mark.parametrize("outage", [untrusted_certificate, rejected_password])


async def stored(guarded: Guarded, count: int) -> list[bytes | None]:
    """The first records of the topic."""
    async with AIOKafkaConsumer(**guarded.options) as consumer, asyncio.timeout(60):
        consumer.assign([PARTITION])
        consumer.seek(PARTITION, 0)
        return [(await consumer.getone()).value for _ in range(count)]


@OUTAGES
@pytest.mark.parametrize("more", [{}, {"acks": 1, "enable_idempotence": False}])
async def test_records_wait_until_the_brokers_authenticate_again(
    outage: Any, more: dict[str, Any], tmp_path: Path
) -> None:
    async with outage(tmp_path) as guarded:
        async with AIOKafkaProducer(**guarded.options, **more) as producer, asyncio.timeout(90):
            await producer.send_and_wait("orders", b"0")
            await guarded.reject(producer)
            waiting = [await producer.send("orders", b"%d" % number) for number in range(1, 4)]
            outbox = producer._sender._outboxes[0]
            while not isinstance(outbox.trouble, AuthenticationFailedError):
                await asyncio.sleep(0.01)
            assert not any(each.done() for each in waiting)
            guarded.accept()
            assert [(await each).offset for each in waiting] == [1, 2, 3]
        assert guarded.cluster.partition("orders", 0).log.end_offset == 4
        assert await stored(guarded, 4) == [b"0", b"1", b"2", b"3"]


@OUTAGES
async def test_delivery_timeout_names_the_failed_authentication(
    outage: Any, tmp_path: Path
) -> None:
    async with outage(tmp_path) as guarded:
        chosen = {**guarded.options, "delivery_timeout_ms": 1500, "request_timeout_ms": 1000}
        async with AIOKafkaProducer(**chosen) as producer, asyncio.timeout(90):
            await producer.send_and_wait("orders", b"0")
            await guarded.reject(producer)
            with pytest.raises(DeliveryTimeoutError, match="broker 0 cannot be reached") as caught:
                await producer.send_and_wait("orders", b"1")
            assert isinstance(caught.value.__cause__, AuthenticationFailedError)
            assert not caught.value.ambiguous
            guarded.accept()
            while True:  # the backoff may last longer than one delivery timeout
                try:
                    await producer.send_and_wait("orders", b"2")
                    break
                except DeliveryTimeoutError:
                    pass


@OUTAGES
async def test_producer_gets_another_id_once_the_brokers_authenticate_again(
    outage: Any, tmp_path: Path
) -> None:
    async with (
        outage(tmp_path) as guarded,
        AIOKafkaProducer(**guarded.options) as producer,
        asyncio.timeout(90),
    ):
        await producer.send_and_wait("orders", b"0")
        producer._sender._identity.renew()
        await guarded.reject(producer)
        ids = producer._sender._outcomes.ids
        ids.want()
        waiting = await producer.send("orders", b"1")
        while not isinstance(ids.last_error, AuthenticationFailedError):
            await asyncio.sleep(0.01)
        assert not waiting.done()
        guarded.accept()
        assert (await waiting).offset == 1


@OUTAGES
async def test_transaction_commits_once_the_brokers_authenticate_again(
    outage: Any, tmp_path: Path
) -> None:
    async with outage(tmp_path) as guarded:
        async with (
            AIOKafkaProducer(**guarded.options, transactional_id="t") as producer,
            asyncio.timeout(90),
        ):
            async with producer.transaction():
                await producer.send_and_wait("orders", b"0")
            await producer.begin_transaction()
            await producer.send_and_wait("orders", b"1")
            await guarded.reject(producer)
            committing = asyncio.ensure_future(producer.commit_transaction())
            sender = producer._sender
            assert isinstance(sender, TransactionalSender)
            machine = sender.transactions.machine
            while not isinstance(machine.trouble, AuthenticationFailedError):
                assert not committing.done()
                await asyncio.sleep(0.01)
            guarded.accept()
            await committing
        assert guarded.cluster.count(ApiKey.END_TXN) >= 2
        assert await stored(guarded, 2) == [b"0", b"1"]
