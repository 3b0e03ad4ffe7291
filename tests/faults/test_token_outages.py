"""Clients survive an outage of the identity provider that is longer than a token's lifetime.

TOKEN_OUTAGE is the length of an outage in the test with real brokers, in seconds.
"""

import os

import pytest

from aiokafka_lite.testing import FakeCluster
from tests.faults.address_changes import PARTITIONS, TOPIC, check_log
from tests.faults.token_outages import LIFETIME, check_outages
from tools.kafka import KafkaCluster, Security

OUTAGE = float(os.environ.get("TOKEN_OUTAGE", "60"))


@pytest.mark.timeout(300)
async def test_clients_recover_from_an_outage_of_the_token_server() -> None:
    async with FakeCluster(
        3, {TOPIC: PARTITIONS}, users={}, sasl_mechanisms=["OAUTHBEARER"]
    ) as cluster:
        traffic, _ = await check_outages(cluster.bootstrap_servers, 1, LIFETIME * 1.5)
        for partition, count in enumerate(traffic.acknowledged):
            stored = [int(each.value or b"") for each in cluster.records(TOPIC, partition)]
            assert stored == list(range(count))


@pytest.mark.real
@pytest.mark.long
@pytest.mark.timeout(OUTAGE + 400)
async def test_clients_of_real_brokers_recover_from_an_outage_of_the_token_server() -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    listener = "listener.name.sasl_plaintext"
    config = {
        f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{listener}.oauthbearer.sasl.jaas.config": (
            f'{module} required unsecuredLoginStringClaim_sub="x";'
        ),
        "connections.max.reauth.ms": LIFETIME * 1000,
    }
    security = Security(("SASL_PLAINTEXT",))
    with KafkaCluster(nodes=3, config=config, security=security) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 3)
        traffic, tokens = await check_outages(cluster.bootstrap_of("SASL_PLAINTEXT"), 1, OUTAGE)
        await check_log(cluster.bootstrap_servers, traffic)
        print(f"{sum(traffic.acknowledged)} records, {tokens} tokens")
