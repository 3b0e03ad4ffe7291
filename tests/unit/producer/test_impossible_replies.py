"""An impossible response closes the connection with a clear error; every record is stored once,
in order, and its ack reports that or an unknown outcome."""

import logging

import pytest

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.producer.producer import AIOKafkaProducer
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.unit.lies import LIES, NEEDS_PATIENCE

pytestmark = pytest.mark.unhurried

ASKED = [ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID, ApiKey.METADATA, ApiKey.API_VERSIONS]
VALUES = [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("api_key", ASKED, ids=lambda key: key.name.lower())
async def test_nothing_is_lost(api_key: ApiKey, lie: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "aiokafka_lite.net")
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            request_timeout_ms=500 if lie in NEEDS_PATIENCE else 5000,
            retry_backoff_ms=1,
        )
        async with producer:
            fault = cluster.control(api_key, after_handling=True, tamper=LIES[lie])
            told: list[int | None] = []
            for value in VALUES:
                try:
                    told.append((await producer.send_and_wait("orders", value)).offset)
                except KafkaProtocolError:
                    told.append(None)
        assert fault.hits == 1
        assert any(
            "closing the connection to " in said and "Error: " in said for said in caplog.messages
        )
        # Records with an unknown outcome are stored here: the response was corrupt, not the
        # request.
        assert [record.value for record in cluster.records("orders")] == VALUES
        assert told.count(None) <= (api_key == ApiKey.PRODUCE)
        assert [offset for offset in told if offset is not None] == [
            number for number, offset in enumerate(told) if offset is not None
        ]
