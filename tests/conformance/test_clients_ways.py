"""Unspecified behavior of other clients, and Kafka's reaction."""

from aiokafka_lite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from tests.conformance.conftest import Compare
from tests.conformance.target import Target

TOPIC = 2  # ConfigResource


class _WithRest(MetadataRequest):
    """A request with more bytes than its fields."""

    __slots__ = ()

    def encode(self, out: bytearray, version: int) -> None:
        super().encode(out, version)
        out += b"???"


async def test_trailing_bytes_after_a_request(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        for version in (8, 12, 13):
            await target.ask(_WithRest([], allow_auto_topic_creation=False), version)

    await compare(scenario)


async def test_one_configuration_in_every_version(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(**{"retention.bytes": 5000})
        for name in ("retention.bytes", "cleanup.policy"):
            asked = DescribeConfigsResource(TOPIC, topic, [name])
            for version in range(1, 5):
                await target.ask(DescribeConfigsRequest([asked]), version)

    await compare(scenario)
