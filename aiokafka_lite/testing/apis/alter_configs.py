"""AlterConfigs, v0-v2: give a resource other configurations in place of all that it had.

What is not named falls back to its default, which is why IncrementalAlterConfigs came (KIP-339).
"""

from collections import Counter

from aiokafka_lite.errors import BrokerResponseError, InvalidRequestError
from aiokafka_lite.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from aiokafka_lite.testing.alterations import replace
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.wording import wording


def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    times_named = Counter(
        (resource.resource_type, resource.resource_name) for resource in request.resources
    )
    return AlterConfigsResponse(
        responses=[
            _replace(
                resource,
                times_named[resource.resource_type, resource.resource_name],
                context,
                validate_only=request.validate_only,
            )
            for resource in request.resources
        ]
    )


def _replace(
    resource: AlterConfigsResource,
    times_named: int,
    context: RequestContext,
    *,
    validate_only: bool,
) -> AlterConfigsResourceResponse:
    kind, name = resource.resource_type, resource.resource_name
    values = [(config.name, config.value) for config in resource.configs]
    try:
        if times_named > 1:
            raise InvalidRequestError("Each resource must appear at most once.")
        replace(kind, name, values, context, validate_only=validate_only)
    except BrokerResponseError as error:
        return AlterConfigsResourceResponse(
            error_code=error.errno,
            error_message=wording(error),
            resource_type=kind,
            resource_name=name,
        )
    return AlterConfigsResourceResponse(error_message=None, resource_type=kind, resource_name=name)
