"""Real brokers change all their addresses and certificates while a producer and a group work.

CHAOS_ROUNDS sets the number of changes.
"""

import os
from functools import partial
from pathlib import Path

import pytest

from tests.broker_certificates import install
from tests.certificates import Authority
from tests.faults.address_changes import PARTITIONS, TOPIC, Town, check_changes, check_log
from tools.kafka import KafkaCluster, Security

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "4"))

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(ROUNDS * 120 + 400)]


@pytest.mark.parametrize("period", [3, 20])
async def test_clients_follow_new_addresses_and_certificates(
    period: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    security = Security(("SSL",), client_auth=True, host="localhost")
    with KafkaCluster(nodes=3, security=security) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 3)
        addresses = cluster.bootstrap_of("SSL").split(",")
        ports = [int(address.rpartition(":")[2]) for address in addresses]
        town = Town(ports, Authority(security.folder), tmp_path, partial(install, cluster))
        traffic = await check_changes(town, ROUNDS, period, monkeypatch)
        await check_log(cluster.bootstrap_servers, traffic)
