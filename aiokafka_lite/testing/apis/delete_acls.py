"""DeleteAcls, v0-v3: delete the ACLs that filters match, and return them for each filter."""

from aiokafka_lite.errors import BrokerResponseError, SecurityDisabled
from aiokafka_lite.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import (
    CLUSTER_NAME,
    Acl,
    AclTable,
    Operation,
    Resource,
    filter_of_codes,
)
from aiokafka_lite.testing.wording import wording


def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    try:
        context.check()
        context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
        if context.state.authorizer is None:
            raise SecurityDisabled("No Authorizer is configured.")
    except BrokerResponseError as error:
        refused = [DeleteAclsFilterResult(error.errno, wording(error)) for _ in request.filters]
        return DeleteAclsResponse(filter_results=refused)
    table = context.state.authorizer.acls
    # Every filter sees the original table: an ACL that two filters match is returned twice.
    found = [_find(which, table) for which in request.filters]
    for acls in found:
        for acl in acls if isinstance(acls, list) else ():
            table.remove(acl)
    return DeleteAclsResponse(filter_results=[_result(acls) for acls in found])


def _find(which: DeleteAclsFilter, table: AclTable) -> list[Acl] | BrokerResponseError:
    try:
        return table.find(
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
        return error


def _result(found: list[Acl] | BrokerResponseError) -> DeleteAclsFilterResult:
    if isinstance(found, BrokerResponseError):
        return DeleteAclsFilterResult(found.errno, str(found))
    return DeleteAclsFilterResult(
        error_message=None, matching_acls=[DeleteAclsMatchingAcl(0, None, *acl) for acl in found]
    )
