"""Every client takes the TLS options, and uses replaced certificates without a restart."""

import os
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import (
    AIOKafkaAdminClient,
    AIOKafkaClient,
    AIOKafkaConsumer,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
    TopicPartition,
)
from aiokafka_lite.testing import FakeCluster
from tests.certificates import Authority, Certificate


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> list[Authority]:
    folder = tmp_path_factory.mktemp("authorities")
    return [Authority(folder / name, name) for name in ("first", "second")]


class Rotation:
    """The files of a client, and the broker's TLS context, replaced together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.serving.verify_mode = ssl.CERT_REQUIRED
        self.options = {
            "security_protocol": "SSL",
            "ssl_cafile": folder / "ca.pem",
            "ssl_certfile": folder / "client.pem",
            "ssl_keyfile": folder / "client.key",
            "ssl_password": "hush",
        }

    def to(self, authority: Authority, broker: Certificate, client: Certificate) -> None:
        self.serving.load_cert_chain(broker.cert, broker.key)
        self.serving.load_verify_locations(authority.cert)
        for source, name in (
            (authority.cert, "ca.pem"),
            (client.cert, "client.pem"),
            (client.key, "client.key"),
        ):
            shutil.copy(source, self._folder / "fresh")
            os.replace(self._folder / "fresh", self._folder / name)


def certificates(authority: Authority) -> tuple[Authority, Certificate, Certificate]:
    return authority, authority.issue("broker"), authority.issue("client", password="hush")


@pytest.mark.parametrize(
    "face",
    [
        AIOKafkaProducer,
        AIOKafkaConsumer,
        AIOKafkaAdminClient,
        AIOKafkaClient,
        lambda **options: AIOKafkaShareConsumer("t", group_id="g", **options),
    ],
)
async def test_every_client_connects_with_the_tls_options(
    face: Callable[..., Any], authorities: list[Authority], tmp_path: Path
) -> None:
    rotation = Rotation(tmp_path)
    rotation.to(*certificates(authorities[0]))
    async with (
        FakeCluster(topics={"t": 1}, ssl_context=rotation.serving) as cluster,
        face(bootstrap_servers=cluster.bootstrap_servers, **rotation.options),
    ):
        pass


async def test_replaced_certificates_are_used_without_a_restart(
    authorities: list[Authority], tmp_path: Path
) -> None:
    rotation = Rotation(tmp_path)
    rotation.to(*certificates(authorities[0]))
    async with FakeCluster(topics={"t": 1}, ssl_context=rotation.serving) as cluster:
        options = {"bootstrap_servers": cluster.bootstrap_servers, **rotation.options}
        async with (
            AIOKafkaProducer(**options) as producer,
            AIOKafkaConsumer(**options) as consumer,
        ):
            consumer.assign([TopicPartition("t", 0)])
            consumer.seek(TopicPartition("t", 0), 0)
            await producer.send_and_wait("t", b"0")
            assert (await consumer.getone()).value == b"0"
            for number in range(1, 5):
                # The next authority does not trust the certificates of the previous one.
                rotation.to(*certificates(authorities[number % 2]))
                cluster.disconnect()
                value = str(number).encode()
                await producer.send_and_wait("t", value)
                assert (await consumer.getone()).value == value
