"""Reads the table of ACLs as Kafka's `StandardAuthorizer` does (KIP-801). No I/O.

- a super user may do everything, whatever denies it;
- any DENY that applies wins over every ALLOW;
- an ALLOW of READ, WRITE, DELETE or ALTER implies DESCRIBE, one of ALTER_CONFIGS implies
  DESCRIBE_CONFIGS; a DENY implies nothing;
- a resource that no ACL is about is forbidden, unless `allow_everyone_if_no_acl_found`.
"""

from collections.abc import Iterable
from typing import Final

from aiokafka_lite.testing.security.acls import (
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
ANY_NAME: Final = "hardcode"  # what Kafka asks for when no resource in particular is meant
_IMPLYING: Final[dict[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""Operations whose ALLOW allows these too."""


class Authorizer:
    """Decides by a table; a subclass may decide otherwise.

    Args:
        super_users: Principals that may do everything: "User:admin".
        allow_everyone_if_no_acl_found: Allow what no ACL is about
            (`allow.everyone.if.no.acl.found`).
        acls: The table; a new one if None.
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
        """Whether a principal, coming from an address, may do that to a resource."""
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
        """Whether it may do that to at least one resource of a type (KIP-679)."""
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
        """What it may do to a resource: bit `n` is set for the operation of code `n`."""
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
    """Whether nothing is left of what `allow` allows."""
    if deny.pattern is Pattern.PREFIXED:
        return allow.name.startswith(deny.name) and not _is_everything(allow)
    return _is_everything(deny) or (deny.name == allow.name and deny.pattern is allow.pattern)


def _is_everything(acl: Acl) -> bool:
    return acl.name == WILDCARD and acl.pattern is Pattern.LITERAL
