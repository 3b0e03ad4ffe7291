"""DescribeAcls, v0-v3: the ACLs that a filter matches, by resource. v1: prefixes (KIP-290)."""

from aiokafka_lite.errors import BrokerResponseError, SecurityDisabled
from aiokafka_lite.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import (
    CLUSTER_NAME,
    Acl,
    Operation,
    Pattern,
    Resource,
    filter_of_codes,
)
from aiokafka_lite.testing.wording import wording


def handle(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    try:
        context.check()
        context.authorize(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
        if context.state.authorizer is None:
            raise SecurityDisabled("No Authorizer is configured on the broker")
        found = context.state.authorizer.acls.find(
            filter_of_codes(
                request.resource_type_filter,
                request.resource_name_filter,
                request.pattern_type_filter,
                request.principal_filter,
                request.host_filter,
                request.operation,
                request.permission_type,
            )
        )
    except BrokerResponseError as error:
        return DescribeAclsResponse(error_code=error.errno, error_message=wording(error))
    by_resource: dict[tuple[Resource, str, Pattern], list[Acl]] = {}
    for acl in found:
        by_resource.setdefault((acl.resource, acl.name, acl.pattern), []).append(acl)
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=resource,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
                    for acl in acls
                ],
            )
            for (resource, name, pattern), acls in by_resource.items()
        ],
    )
