"""IncrementalAlterConfigs, v0-v1: set, delete, append to or subtract from single configurations.

Of topics, brokers, their loggers, groups and client metrics (KIP-339, KIP-412, KIP-714, KIP-848).
"""

from collections import Counter

from aiokafka_lite.errors import BrokerResponseError, InvalidRequestError
from aiokafka_lite.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from aiokafka_lite.testing.alterations import Change, alter
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.wording import wording


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    times_named = Counter(
        (resource.resource_type, resource.resource_name) for resource in request.resources
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            _alter(
                resource,
                times_named[resource.resource_type, resource.resource_name],
                context,
                validate_only=request.validate_only,
            )
            for resource in request.resources
        ]
    )


def _alter(
    resource: AlterConfigsResource,
    times_named: int,
    context: RequestContext,
    *,
    validate_only: bool,
) -> AlterConfigsResourceResponse:
    kind, name = resource.resource_type, resource.resource_name
    changes = [
        Change(config.name, config.config_operation, config.value) for config in resource.configs
    ]
    try:
        if times_named > 1:
            raise InvalidRequestError("Each resource must appear at most once.")
        alter(kind, name, changes, context, validate_only=validate_only)
    except BrokerResponseError as error:
        return AlterConfigsResourceResponse(
            error_code=error.errno,
            error_message=wording(error),
            resource_type=kind,
            resource_name=name,
        )
    return AlterConfigsResourceResponse(error_message=None, resource_type=kind, resource_name=name)
