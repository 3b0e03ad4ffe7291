"""A real broker temporarily presents a certificate that its clients do not trust."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.admin import AIOKafkaAdminClient
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import AuthenticationFailedError
from tests.broker_certificates import install
from tests.certificates import Authority
from tools.kafka import KafkaCluster, Security

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(600)]

ROUNDS = 3
SESSION_MS = 300_000
"""Long enough that the coordinator removes no member during an outage."""
PATIENCE = 400.0
"""Maximum seconds of a test, even on a busy machine."""


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaCluster]:
    config = {
        "group.consumer.session.timeout.ms": SESSION_MS,
        "group.consumer.max.session.timeout.ms": SESSION_MS,
    }
    with KafkaCluster(config=config, security=Security(("SSL",), host="localhost")) as cluster:
        yield cluster


class Certificates:
    """The broker's certificates: of the authority that clients trust, and of another one."""

    def __init__(self, broker: KafkaCluster, folder: Path) -> None:
        assert broker.security is not None
        self._broker = broker
        self.trusted = Authority(broker.security.folder)
        self._other = Authority(folder / "other")

    @property
    def options(self) -> dict[str, Any]:
        """The options of clients."""
        return {
            "bootstrap_servers": self._broker.bootstrap_of("SSL"),
            "security_protocol": "SSL",
            "ssl_cafile": self.trusted.cert,
        }

    async def distrust(self, cluster: Cluster) -> None:
        """Make the broker present another certificate, and close a client's connections."""
        await install(self._broker, self._other.issue("broker"))
        for each in cluster._brokers:
            each.disconnect()

    async def restore(self) -> None:
        await install(self._broker, self.trusted.issue("broker"))


@pytest.fixture
def certificates(broker: KafkaCluster, tmp_path: Path) -> Certificates:
    return Certificates(broker, tmp_path)


async def test_no_record_is_lost_while_the_certificate_is_not_trusted(
    broker: KafkaCluster, certificates: Certificates
) -> None:
    """As in Java's producer, records wait until `delivery_timeout_ms`."""
    broker.create_topic("orders")
    sent = 0
    async with (
        asyncio.timeout(PATIENCE),
        AIOKafkaProducer(
            **certificates.options, delivery_timeout_ms=int(PATIENCE * 1000)
        ) as producer,
    ):
        await producer.send_and_wait("orders", b"0")
        for _ in range(ROUNDS):
            await certificates.distrust(producer._cluster)
            waiting = []
            for _ in range(100):
                sent += 1
                waiting.append(await producer.send("orders", b"%d" % sent))
            [outbox] = producer._sender._outboxes.values()
            while not isinstance(outbox.trouble, AuthenticationFailedError):
                await asyncio.sleep(0.05)
            assert not any(each.done() for each in waiting)
            await certificates.restore()
            await asyncio.gather(*waiting)
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        place = TopicPartition("orders", 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        read = [int((await consumer.getone()).value or b"") for _ in range(sent + 1)]
        assert read == list(range(sent + 1))
        assert (await consumer.end_offsets([place]))[place] == sent + 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_member_keeps_its_place_while_the_certificate_is_not_trusted(
    broker: KafkaCluster, certificates: Certificates, protocol: str
) -> None:
    """Reads raise the error. The application continues to read, and the group does not rebalance.

    Java's classic consumer does the same. Java's KIP-848 consumer never recovers.
    """
    topic = f"events-{protocol}"
    broker.create_topic(topic)
    sessions = {"session_timeout_ms": SESSION_MS} if protocol == "classic" else {}
    async with (
        asyncio.timeout(PATIENCE),
        AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin,
        AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
        AIOKafkaConsumer(
            topic,
            group_id=topic,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            **sessions,
            **certificates.options,
        ) as consumer,
    ):
        await producer.send_and_wait(topic, b"before")
        assert (await consumer.getone()).value == b"before"
        assert consumer._core.group is not None
        membership = consumer._core.group.driver.membership
        while membership.state.name != "STABLE":
            await asyncio.sleep(0.05)
        before, rebalances = membership.commit_identity(), membership.counters.rebalances
        assert before is not None

        await certificates.distrust(consumer._core.cluster)
        with pytest.raises(AuthenticationFailedError, match="not trusted"):
            await consumer.getone()
        await certificates.restore()
        beats = membership.counters.heartbeats
        await producer.send_and_wait(topic, b"after")
        while True:
            try:
                record = await consumer.getone()
                break
            except AuthenticationFailedError:
                await asyncio.sleep(0.05)
        assert record.value == b"after"
        while membership.counters.heartbeats == beats:
            await asyncio.sleep(0.05)
        await consumer.commit()

        assert membership.commit_identity() == before
        assert membership.counters.rebalances == rebalances
        assert membership.counters.lost == 0
        described = await admin.describe_consumer_groups([topic], typed=True)
        assert [member.member_id for member in described.value(topic).members] == [before.member_id]
