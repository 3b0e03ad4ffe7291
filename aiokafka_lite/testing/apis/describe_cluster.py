"""DescribeCluster, v0-v2: the brokers, the controller, and the client's permissions.

v1 adds the endpoint type (KIP-919); controllers are not accessible here. v2 can include brokers
that are down (KIP-1073).
"""

from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    MismatchedEndpointTypeError,
    UnsupportedEndpointTypeError,
)
from aiokafka_lite.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Resource
from aiokafka_lite.testing.wording import wording

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    try:
        context.check()
        _check_endpoint_type(request.endpoint_type)
    except BrokerResponseError as error:
        return DescribeClusterResponse(error_code=error.errno, error_message=wording(error))
    state = context.state
    response = DescribeClusterResponse(
        cluster_id=state.cluster_id,
        controller_id=state.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=node.node_id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=not node.alive,
            )
            for node in state.nodes.values()
            if node.alive or (request.include_fenced_brokers and node.registered)
        ],
    )
    if request.include_cluster_authorized_operations:
        allowed = context.authorized_operations(Resource.CLUSTER, CLUSTER_NAME)
        response.cluster_authorized_operations = allowed
    return response


def _check_endpoint_type(endpoint_type: int) -> None:
    if endpoint_type == _CONTROLLERS:
        raise MismatchedEndpointTypeError(
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of"
            " type CONTROLLER"
        )
    if endpoint_type != _BROKERS:
        raise UnsupportedEndpointTypeError(f"Unsupported endpoint type {endpoint_type}")
