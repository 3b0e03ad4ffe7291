"""Authorizes requests by the table of ACLs, like Kafka's `StandardAuthorizer` (KIP-801). No I/O.

- a super user may do everything, regardless of DENY;
- an applicable DENY overrides every ALLOW;
- an ALLOW of READ, WRITE, DELETE or ALTER implies DESCRIBE, one of ALTER_CONFIGS implies
  DESCRIBE_CONFIGS; a DENY implies nothing;
- access to a resource without ACLs is denied, unless `allow_everyone_if_no_acl_found` is set.
"""

from collections.abc import Iterable
from typing import Final

from aiokafka_lite.testing.security.acl_table import (
    WILDCARD,
    Acl,
    AclFilter,
    AclTable,
    Operation,
    Pattern,
    Permission,
    Resource,
    operations_of,
)

__all__ = ["Authorizer"]

EVERYBODY: Final = "User:*"
ANY_NAME: Final = "hardcode"  # the resource name that Kafka checks for "any resource"
_IMPLYING: Final[dict[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""Operations that the ALLOW of others implies."""


class Authorizer:
    """Authorizes by a table of ACLs; a subclass may decide differently.

    Args:
        super_users: Principals that may do everything: "User:admin".
        allow_everyone_if_no_acl_found: Allow access to resources without ACLs
            (`allow.everyone.if.no.acl.found`).
        acls: The table; None creates one.
    """

    def __init__(
        self,
        super_users: Iterable[str] = (),
        *,
        allow_everyone_if_no_acl_found: bool = False,
        acls: AclTable | None = None,
    ) -> None:
        self.super_users = frozenset(super_users)
        self.allow_everyone_if_no_acl_found = allow_everyone_if_no_acl_found
        self.acls = AclTable() if acls is None else acls

    def allows(
        self, principal: str, host: str, operation: Operation, resource: Resource, name: str
    ) -> bool:
        """Return True if a principal at an address may perform an operation on a resource."""
        if principal in self.super_users:
            return True
        covering = self.acls.covering(resource, name)
        if not covering:
            return self.allow_everyone_if_no_acl_found
        applying = [acl for acl in covering if _applies(acl, principal, host, operation)]
        if any(acl.permission is Permission.DENY for acl in applying):
            return False
        return bool(applying)

    def allows_any(
        self, principal: str, host: str, operation: Operation, resource: Resource
    ) -> bool:
        """Return True if it may perform it on at least one resource of a type (KIP-679)."""
        if self.allows(principal, host, operation, resource, ANY_NAME):
            return True
        said = [
            acl
            for acl in self.acls.find(AclFilter(resource))
            if acl.principal in (principal, EVERYBODY)
            and acl.host in (host, WILDCARD)
            and acl.operation in (operation, Operation.ALL)
        ]
        denied = [acl for acl in said if acl.permission is Permission.DENY]
        return any(
            not any(_dominates(deny, allow) for deny in denied)
            for allow in said
            if allow.permission is Permission.ALLOW
        )

    def allowed_operations(self, principal: str, host: str, resource: Resource, name: str) -> int:
        """Return the allowed operations on a resource: bit `n` is set for operation code `n`."""
        return sum(
            1 << operation
            for operation in operations_of(resource)
            if self.allows(principal, host, operation, resource, name)
        )


def _applies(acl: Acl, principal: str, host: str, operation: Operation) -> bool:
    if acl.principal not in (principal, EVERYBODY) or acl.host not in (host, WILDCARD):
        return False
    if acl.operation in (Operation.ALL, operation):
        return True
    implying = _IMPLYING.get(operation, frozenset())
    return acl.permission is Permission.ALLOW and acl.operation in implying


def _dominates(deny: Acl, allow: Acl) -> bool:
    """Return True if `deny` denies everything that `allow` allows."""
    if deny.pattern is Pattern.PREFIXED:
        return allow.name.startswith(deny.name) and not _is_everything(allow)
    return _is_everything(deny) or (deny.name == allow.name and deny.pattern is allow.pattern)


def _is_everything(acl: Acl) -> bool:
    return acl.name == WILDCARD and acl.pattern is Pattern.LITERAL
