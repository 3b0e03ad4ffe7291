"""AlterClientQuotas, v0-v1: set and remove quotas of users, client ids and addresses (KIP-546).

Producer, consumer and request quotas take effect immediately; other quotas are only stored.
"""

from aiokafka_lite.errors import BrokerResponseError, InvalidRequestError
from aiokafka_lite.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.wording import wording


def handle(request: AlterClientQuotasRequest, context: RequestContext) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[_alter(entry, request.validate_only, context) for entry in request.entries]
    )


def _alter(
    entry: AlterClientQuotasRequestEntryData, validate_only: bool, context: RequestContext
) -> AlterClientQuotasResponseEntryData:
    entity = [EntityData(part.entity_type, part.entity_name) for part in entry.entity]
    try:
        context.check()
        context.authorize(Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME)
        changes = {op.key: None if op.remove else op.value for op in entry.ops}
        if len(changes) != len(entry.ops):
            raise InvalidRequestError("an entity contains a duplicate quota key")
        parts = [(part.entity_type, part.entity_name) for part in entry.entity]
        if len(dict(parts)) != len(parts):
            raise InvalidRequestError("an entity contains a duplicate entity type")
        context.state.quotas.alter(parts, changes, validate_only=validate_only)
    except BrokerResponseError as error:
        return AlterClientQuotasResponseEntryData(error.errno, wording(error), entity)
    return AlterClientQuotasResponseEntryData(error_message=None, entity=entity)
