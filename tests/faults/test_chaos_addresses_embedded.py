"""Embedded brokers change all their addresses and certificates under traffic."""

import ssl
from pathlib import Path

import pytest

from aiokafka_lite.testing import FakeCluster
from tests.certificates import Authority, Certificate
from tests.faults.address_changes import PARTITIONS, TOPIC, Town, check_changes, check_log

ROUNDS = 3


@pytest.mark.timeout(400)
async def test_clients_follow_new_addresses_and_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "authority")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.verify_mode = ssl.CERT_REQUIRED
    serving.load_verify_locations(authority.cert)

    async def install(certificate: Certificate) -> None:
        serving.load_cert_chain(certificate.cert, certificate.key)

    await install(authority.issue("broker"))
    async with FakeCluster(
        brokers=3, topics={TOPIC: PARTITIONS}, ssl_context=serving, advertise="localhost"
    ) as cluster:
        addresses = [cluster.address(node_id) for node_id in range(3)]
        ports = [int(address.rpartition(":")[2]) for address in addresses]
        town = Town(ports, authority, tmp_path, install)
        traffic = await check_changes(town, ROUNDS, 0.2, monkeypatch)
        await town.open()
        await check_log(
            f"localhost:{ports[0]}",
            traffic,
            **{name: value for name, value in town.options.items() if name != "bootstrap_servers"},
        )
        await town.close()
