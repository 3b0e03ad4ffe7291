"""Replaces the certificates of running brokers."""

import asyncio
import ssl
from typing import Final

from aiokafka_lite import AIOKafkaAdminClient
from aiokafka_lite.admin import ConfigResource
from tests.certificates import Certificate
from tools.kafka import KafkaCluster

PATIENCE: Final = 60.0
"""Seconds within which the brokers must apply the change."""
IN_A_ROW: Final = 10
"""Connections that must present the new certificate. A broker assigns connections to its network
threads in turn. Each thread loads the certificate itself: under load, seconds after the others."""


async def install(cluster: KafkaCluster, certificate: Certificate) -> None:
    """Make the SSL listeners of all brokers use a certificate; connections stay open.

    On return, every network thread of every broker presents it.
    """
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
    for address in cluster.bootstrap_of("SSL").split(","):
        port = int(address.rpartition(":")[2])
        row = 0
        async with asyncio.timeout(PATIENCE):
            while row < IN_A_ROW:
                if await asyncio.to_thread(_served, port) == wanted:
                    row += 1
                else:
                    row = 0
                    await asyncio.sleep(0.1)


def _served(port: int) -> bytes:
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port), timeout=30))
