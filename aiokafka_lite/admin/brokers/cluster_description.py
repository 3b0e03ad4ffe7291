"""Describes the cluster: its brokers, its controller, and what the client may do with it.

Source: DescribeClusterRequest.json v0-v2, MetadataRequest.json v1-v10, KIP-700, KIP-1073.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka_lite.admin.core.authorized_operations import AclOperation, authorized_operations
from aiokafka_lite.admin.core.controller_cluster import (
    BROKERS,
    CONTROLLERS,
    ENDPOINT_TYPE_FROM,
)
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.metadata import NO_CONTROLLER
from aiokafka_lite.cluster.retry import ANY
from aiokafka_lite.errors import UnsupportedVersionError
from aiokafka_lite.protocol.messages.describe_cluster import DescribeClusterRequest
from aiokafka_lite.protocol.messages.metadata import MetadataRequest

__all__ = ["BrokerDescription", "ClusterDescription", "describe_cluster"]

_FENCED_FROM = 2
"""The version of DescribeCluster that lists fenced brokers (KIP-1073)."""
_OPERATIONS_FROM, _OPERATIONS_UNTIL = 8, 10
"""The versions of Metadata that return the authorized operations of the cluster (KIP-430)."""


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker of the cluster.

    Attributes:
        rack: Its rack or availability zone; None if it has none.
        is_fenced: True if the controller does not let it serve clients (`include_fenced_brokers`).
    """

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster.

    Attributes:
        cluster_id: None from brokers before 0.10.1.
        controller_id: Node id of the broker to send administrative changes to; None if there is
            none. In a KRaft cluster it is any live broker, which forwards them.
        brokers: By node id; with `bootstrap_controllers`, the controllers.
        authorized_operations: What the client may do with the cluster; None if not requested.
        throttle_time_ms: How long the broker throttles the client for the request.
    """

    cluster_id: str | None
    controller_id: int | None
    brokers: Mapping[int, BrokerDescription]
    authorized_operations: frozenset[AclOperation] | None = None
    throttle_time_ms: int = 0

    def to_object(self) -> dict[str, Any]:
        """Return the description as aiokafka's `describe_cluster` returns it."""
        return {
            "throttle_time_ms": self.throttle_time_ms,
            "brokers": [
                {"node_id": each.node_id, "host": each.host, "port": each.port, "rack": each.rack}
                for each in self.brokers.values()
            ],
            "cluster_id": self.cluster_id,
            "controller_id": NO_CONTROLLER if self.controller_id is None else self.controller_id,
        }


async def describe_cluster(
    dispatcher: Dispatcher,
    timeout_ms: float | None,
    *,
    include_authorized_operations: bool,
    include_fenced_brokers: bool,
) -> ClusterDescription:
    """See `AIOKafkaAdminClient.describe_cluster`."""
    deadline = dispatcher.deadline(timeout_ms)
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=include_authorized_operations,
        include_fenced_brokers=include_fenced_brokers,
        endpoint_type=CONTROLLERS if dispatcher.at_controllers else BROKERS,
    )
    oldest = ENDPOINT_TYPE_FROM if dispatcher.at_controllers else 0
    try:
        answer = await dispatcher.ask(
            request,
            ANY,
            deadline,
            oldest=_FENCED_FROM if include_fenced_brokers else oldest,
            feature="Describing fenced brokers (include_fenced_brokers)",
        )
    except UnsupportedVersionError:
        if include_fenced_brokers or dispatcher.at_controllers:
            raise
        return await _by_metadata(dispatcher, deadline, include_authorized_operations)
    return ClusterDescription(
        answer.cluster_id,
        _controller(answer.controller_id),
        {
            each.broker_id: BrokerDescription(
                each.broker_id, each.host, each.port, each.rack, each.is_fenced
            )
            for each in sorted(answer.brokers, key=lambda each: each.broker_id)
        },
        authorized_operations(answer.cluster_authorized_operations),
        answer.throttle_time_ms,
    )


async def _by_metadata(
    dispatcher: Dispatcher, deadline: float, include_authorized_operations: bool
) -> ClusterDescription:
    """For brokers before 2.8, which have no DescribeCluster."""
    answer = await dispatcher.ask(
        PerVersion(
            MetadataRequest,
            lambda version: MetadataRequest(
                topics=[],  # no topic; version 0 would return all of them
                allow_auto_topic_creation=version < 4,
                include_cluster_authorized_operations=include_authorized_operations,
            ),
        ),
        ANY,
        deadline,
        oldest=_OPERATIONS_FROM if include_authorized_operations else 0,
        latest=_OPERATIONS_UNTIL,
        feature="Describing the authorized operations of a cluster",
    )
    return ClusterDescription(
        answer.cluster_id,
        _controller(answer.controller_id),
        {
            each.node_id: BrokerDescription(each.node_id, each.host, each.port, each.rack)
            for each in sorted(answer.brokers, key=lambda each: each.node_id)
        },
        authorized_operations(answer.cluster_authorized_operations),
        answer.throttle_time_ms,
    )


def _controller(node_id: int) -> int | None:
    return None if node_id < 0 else node_id
