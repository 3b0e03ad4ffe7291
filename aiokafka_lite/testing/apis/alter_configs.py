"""AlterConfigs, v0-v2: replace all configurations of a resource.

Omitted configurations return to their defaults, unlike with IncrementalAlterConfigs (KIP-339).
"""

from aiokafka_lite.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.serving.config_alterations import change_each, replace


def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    def change(resource: AlterConfigsResource) -> None:
        kind, name = resource.resource_type, resource.resource_name
        values = [(config.name, config.value) for config in resource.configs]
        replace(kind, name, values, context, validate_only=request.validate_only)

    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(code, text, each.resource_type, each.resource_name)
            for each, code, text in change_each(request.resources, change)
        ]
    )
