"""A cluster that the client reaches through its KRaft controllers, not its brokers (KIP-919).

Controllers have no Metadata request. DescribeCluster returns their addresses, and which of them is
active. The rest of `Cluster` works as with brokers.
"""

from __future__ import annotations

from typing import Final

from aiokafka_lite.cluster.broker import Broker, Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.large_metadata import MetadataAnswer
from aiokafka_lite.errors import UnsupportedVersionError, for_code
from aiokafka_lite.protocol.messages.describe_cluster import DescribeClusterRequest
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataResponseBroker

__all__ = ["BROKERS", "CONTROLLERS", "ENDPOINT_TYPE_FROM", "ControllerCluster"]

BROKERS: Final = 1
CONTROLLERS: Final = 2
"""Endpoint types of DescribeCluster."""
ENDPOINT_TYPE_FROM: Final = 1
"""The version of DescribeCluster that has them (Kafka 3.7)."""


class ControllerCluster(Cluster):
    """The controllers of one cluster, as its nodes; there are no topics."""

    async def _ask(
        self, broker: Broker, asked: frozenset[str] | None
    ) -> tuple[MetadataAnswer, int]:
        connection = await broker.connection(Purpose.GENERAL)
        request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        try:
            version = connection.version_of(request, oldest=ENDPOINT_TYPE_FROM)
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(
                f"bootstrap_controllers requires Kafka 3.7 or newer: {error.args[0]}"
            ) from error
        description = await connection.request(request, version)
        if description.error_code:
            raise for_code(description.error_code)(
                f"{description.error_message or broker} (bootstrap_controllers needs the "
                "addresses of KRaft controllers)"
            )
        answer = MetadataAnswer(
            brokers=[
                MetadataResponseBroker(each.broker_id, each.host, each.port, each.rack)
                for each in description.brokers
            ],
            cluster_id=description.cluster_id,
            controller_id=description.controller_id,
        )
        answer.unread = None
        return answer, MetadataRequest.max_version
