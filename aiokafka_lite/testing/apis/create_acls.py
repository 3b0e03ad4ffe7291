"""CreateAcls, v0-v3: add ACLs, each independently. v1 supports prefixes (KIP-290).

As in Kafka, an ACL with ANY, which only filters may contain, fails the whole request.
"""

from aiokafka_lite.errors import BrokerResponseError, SecurityDisabled, UnknownError
from aiokafka_lite.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import (
    CLUSTER_NAME,
    Acl,
    AclTable,
    Operation,
    Resource,
    acl_of_codes,
)
from aiokafka_lite.testing.wording import wording


def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    try:
        context.check()
        context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
        if context.state.authorizer is None:
            raise SecurityDisabled("No Authorizer is configured.")
        wanted = [_acl(creation) for creation in request.creations]
        if any(acl.is_pattern for acl in wanted):
            raise UnknownError("an ACL contains a value that is valid only in filters")
    except BrokerResponseError as error:
        refused = [AclCreationResult(error.errno, wording(error)) for _ in request.creations]
        return CreateAclsResponse(results=refused)
    table = context.state.authorizer.acls
    return CreateAclsResponse(results=[_create(acl, table) for acl in wanted])


def _acl(creation: AclCreation) -> Acl:
    return acl_of_codes(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _create(wanted: Acl, table: AclTable) -> AclCreationResult:
    try:
        table.add(wanted)
    except BrokerResponseError as error:
        return AclCreationResult(error.errno, wording(error))
    return AclCreationResult(error_message=None)
