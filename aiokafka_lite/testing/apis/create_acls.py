"""CreateAcls, v0-v3: lines for the table of ACLs, each for itself. v1 knows prefixes (KIP-290)."""

from aiokafka_lite.errors import BrokerResponseError, SecurityDisabled
from aiokafka_lite.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from aiokafka_lite.testing.acls import (
    CLUSTER_NAME,
    AclTable,
    Operation,
    Resource,
    acl_of_codes,
)
from aiokafka_lite.testing.context import RequestContext


def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    try:
        context.check()
        context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
        if context.state.authorizer is None:
            raise SecurityDisabled("No Authorizer is configured.")
    except BrokerResponseError as error:
        refused = [AclCreationResult(error.errno, str(error)) for _ in request.creations]
        return CreateAclsResponse(results=refused)
    table = context.state.authorizer.acls
    return CreateAclsResponse(results=[_create(wanted, table) for wanted in request.creations])


def _create(wanted: AclCreation, table: AclTable) -> AclCreationResult:
    try:
        table.add(
            acl_of_codes(
                wanted.resource_type,
                wanted.resource_name,
                wanted.resource_pattern_type,
                wanted.principal,
                wanted.host,
                wanted.operation,
                wanted.permission_type,
            )
        )
    except BrokerResponseError as error:
        return AclCreationResult(error.errno, str(error))
    return AclCreationResult(error_message=None)
