"""Real brokers change all their addresses and certificates while a producer and a group work.

CHAOS_ROUNDS sets the number of changes.
"""

import asyncio
import os
import ssl
from pathlib import Path

import pytest

from aiokafka_lite import AIOKafkaAdminClient
from aiokafka_lite.admin import ConfigResource
from tests.certificates import Authority, Certificate
from tests.faults.address_changes import PARTITIONS, TOPIC, Town, check_changes, check_log
from tools.kafka import KafkaCluster, Security

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "4"))

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(ROUNDS * 120 + 400)]


def served(port: int) -> bytes:
    """The certificate of a broker."""
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port), timeout=30))


@pytest.mark.parametrize("period", [3, 20])
async def test_clients_follow_new_addresses_and_certificates(
    period: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    security = Security(("SSL",), client_auth=True, host="localhost")
    with KafkaCluster(nodes=3, security=security) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 3)
        addresses = cluster.bootstrap_of("SSL").split(",")
        ports = [int(address.rpartition(":")[2]) for address in addresses]

        async def install(certificate: Certificate) -> None:
            keystore = certificate.cert.with_suffix(".keystore.pem")
            keystore.write_text(certificate.key.read_text() + certificate.cert.read_text())
            changes = {
                "listener.name.ssl.ssl.keystore.location": str(keystore),
                "listener.name.ssl.ssl.keystore.type": "PEM",
            }
            async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
                results = await admin.incremental_alter_configs(
                    {ConfigResource("broker", node_id): changes for node_id in cluster.node_ids}
                )
                assert set(results.values()) == {None}
            wanted = ssl.PEM_cert_to_DER_cert(certificate.cert.read_text())
            for port in ports:  # the brokers apply the change a moment later
                async with asyncio.timeout(60):
                    while await asyncio.to_thread(served, port) != wanted:
                        await asyncio.sleep(0.1)

        town = Town(ports, Authority(security.folder), tmp_path, install)
        traffic = await check_changes(town, ROUNDS, period, monkeypatch)
        await check_log(cluster.bootstrap_servers, traffic)
