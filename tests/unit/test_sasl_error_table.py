"""The reaction to every error code during SASL authentication: lasting errors are raised.

The caller may retry the start of a client, so a retriable error is raised as a failed connection.
Source: SaslClientAuthenticator of Kafka's Java client.
"""

import asyncio

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import KafkaConnectionError, KafkaError, for_code
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.unit.error_table import METADATA_IS_OLD, PASSES, assert_reactions, reactions

TABLE = reactions(again=f"{PASSES} {METADATA_IS_OLD}", otherwise="raise")


@pytest.mark.parametrize("api_key", [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE])
async def test_every_sasl_error_code_at_the_start(api_key: ApiKey) -> None:
    async def reaction_to(code: int) -> str:
        async with FakeCluster(topics=["orders"], users={"alice": "secret"}) as cluster:
            fault = cluster.control(api_key, error=code)
            producer = AIOKafkaProducer(
                bootstrap_servers=cluster.bootstrap_servers,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="PLAIN",
                sasl_plain_username="alice",
                sasl_plain_password="secret",
            )
            async with asyncio.timeout(5):
                with pytest.raises(KafkaError) as raised:
                    await producer.start()
                await producer.stop()
            assert fault.hits == 1
            assert cluster.count(api_key) == 1
        names = {for_code(code): "raise", KafkaConnectionError: "again"}
        return names.get(type(raised.value), repr(raised.value))

    await assert_reactions(TABLE, reaction_to)
