"""DeleteAcls, v0-v3: the ACLs that filters match; what was deleted is told, filter by filter."""

from aiokafka_lite.errors import BrokerResponseError, SecurityDisabled
from aiokafka_lite.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from aiokafka_lite.testing.acls import (
    CLUSTER_NAME,
    AclTable,
    Operation,
    Resource,
    filter_of_codes,
)
from aiokafka_lite.testing.context import RequestContext


def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    try:
        context.check()
        context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
        if context.state.authorizer is None:
            raise SecurityDisabled("No Authorizer is configured.")
    except BrokerResponseError as error:
        refused = [DeleteAclsFilterResult(error.errno, str(error)) for _ in request.filters]
        return DeleteAclsResponse(filter_results=refused)
    table = context.state.authorizer.acls
    return DeleteAclsResponse(filter_results=[_delete(which, table) for which in request.filters])


def _delete(which: DeleteAclsFilter, table: AclTable) -> DeleteAclsFilterResult:
    try:
        removed = table.remove(
            filter_of_codes(
                which.resource_type_filter,
                which.resource_name_filter,
                which.pattern_type_filter,
                which.principal_filter,
                which.host_filter,
                which.operation,
                which.permission_type,
            )
        )
    except BrokerResponseError as error:
        return DeleteAclsFilterResult(error.errno, str(error))
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[DeleteAclsMatchingAcl(0, None, *acl) for acl in removed],
    )
