"""ListConfigResources, v0-v1: the resources that have configurations.

v0 was ListClientMetricsResources (KIP-714) and lists only those. v1 (KIP-1142) lists the requested
resource types, by default all: every topic and broker, and the groups and subscriptions with
configurations of their own.
"""

from collections.abc import Iterable

from aiokafka_lite.errors import BrokerResponseError, UnsupportedVersionError
from aiokafka_lite.protocol.messages.list_config_resources import (
    ConfigResource as ListedResource,
)
from aiokafka_lite.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from aiokafka_lite.testing.configs.config_store import ConfigResource
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource


def handle(
    request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    try:
        context.check()
        context.authorize(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME)
        kinds = _kinds(request, context.version)
    except BrokerResponseError as error:
        return ListConfigResourcesResponse(error_code=error.errno)
    return ListConfigResourcesResponse(
        config_resources=[
            ListedResource(resource_name=name, resource_type=kind)
            for kind in kinds
            for name in _names(kind, context)
        ]
    )


def _kinds(request: ListConfigResourcesRequest, version: int) -> list[ConfigResource]:
    if version == 0:
        return [ConfigResource.CLIENT_METRICS]
    if not request.resource_types:
        return list(ConfigResource)
    try:
        return [ConfigResource(kind) for kind in dict.fromkeys(request.resource_types)]
    except ValueError as error:
        raise UnsupportedVersionError(str(error)) from None


def _names(kind: ConfigResource, context: RequestContext) -> Iterable[str]:
    state = context.state
    if kind is ConfigResource.TOPIC:
        return list(state.topics)
    if kind in (ConfigResource.BROKER, ConfigResource.BROKER_LOGGER):
        return [str(node_id) for node_id in state.nodes]
    return state.configs.names(kind)
