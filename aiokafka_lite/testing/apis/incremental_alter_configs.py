"""IncrementalAlterConfigs, v0-v1: set, delete, append to or subtract from configurations.

For topics, brokers, their loggers, groups and client metrics (KIP-339, KIP-412, KIP-714, KIP-848).
"""

from aiokafka_lite.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.serving.config_alterations import Change, alter, change_each


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    def change(resource: AlterConfigsResource) -> None:
        kind, name = resource.resource_type, resource.resource_name
        changes = [
            Change(config.name, config.config_operation, config.value)
            for config in resource.configs
        ]
        alter(kind, name, changes, context, validate_only=request.validate_only)

    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(code, text, each.resource_type, each.resource_name)
            for each, code, text in change_each(request.resources, change)
        ]
    )
