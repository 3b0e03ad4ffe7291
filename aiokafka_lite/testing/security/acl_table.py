"""ACLs, ACL filters, and the table of ACLs. No I/O.

A cluster without an `Authorizer` allows everything and ignores the table.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from aiokafka_lite.errors import (
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    DelegationTokenAuthorizationFailed,
    GroupAuthorizationFailedError,
    InvalidRequestError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)
from aiokafka_lite.testing.storage.journal import Journal

__all__ = [
    "CLUSTER_NAME",
    "WILDCARD",
    "Acl",
    "AclFilter",
    "AclTable",
    "Operation",
    "Pattern",
    "Permission",
    "Resource",
    "acl_of_codes",
    "filter_of_codes",
    "operations_of",
    "refusal",
]

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""

WILDCARD: Final = "*"
_JOURNAL_KIND: Final = "acl"


class Operation(IntEnum):
    """An operation on a resource (`org.apache.kafka.common.acl.AclOperation`)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    """A type of resource (`org.apache.kafka.common.resource.ResourceType`)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """How a resource name matches (`PatternType`); ANY and MATCH are for filters (KIP-290)."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """The effect of an ACL: allow or deny (`AclPermissionType`)."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_CONFIGS: Final = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
_OPERATIONS: Final[dict[Resource, tuple[Operation, ...]]] = {
    Resource.TOPIC: (
        *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE),
        *(Operation.DELETE, Operation.ALTER, *_CONFIGS),
    ),
    Resource.GROUP: (Operation.READ, Operation.DESCRIBE, Operation.DELETE, *_CONFIGS),
    Resource.CLUSTER: (
        *(Operation.CREATE, Operation.CLUSTER_ACTION, *_CONFIGS),
        *(Operation.IDEMPOTENT_WRITE, Operation.ALTER, Operation.DESCRIBE),
    ),
    Resource.TRANSACTIONAL_ID: (
        *(Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    ),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}


def operations_of(resource: Resource) -> tuple[Operation, ...]:
    """Return the operations on a resource type, as in authorized-operations fields."""
    return _OPERATIONS[resource]


class Acl(NamedTuple):
    """An ACL.

    Attributes:
        principal: The principal: "User:alice", or "User:*" for all.
        host: The address of the client, or "*" for any.
    """

    resource: Resource
    name: str
    pattern: Pattern
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @property
    def is_pattern(self) -> bool:
        """True if a field is ANY or MATCH, which only filters may contain."""
        return (
            self.resource is Resource.ANY
            or self.pattern in (Pattern.ANY, Pattern.MATCH)
            or self.operation is Operation.ANY
            or self.permission is Permission.ANY
        )

    def covers(self, resource: Resource, name: str) -> bool:
        """Return True if the ACL applies to a resource."""
        if self.resource is not resource:
            return False
        if self.pattern is Pattern.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AclFilter(NamedTuple):
    """A filter of ACLs; None or ANY matches every value of a field."""

    resource: Resource = Resource.ANY
    name: str | None = None
    pattern: Pattern = Pattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource in (Resource.ANY, acl.resource)
            and self.pattern in (Pattern.ANY, Pattern.MATCH, acl.pattern)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.name is None:
            return True
        if self.pattern is Pattern.MATCH:  # every ACL that applies to the name
            return acl.covers(acl.resource, self.name)
        return self.name == acl.name


class AclTable:
    """The ACLs of a cluster, in order of creation.

    May be changed from any thread: reads use an immutable tuple.

    Args:
        journal: Stores the table across restarts.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal or Journal()
        self._acls: tuple[Acl, ...] = tuple(
            _from_key(key) for key, _ in self._journal.entries(_JOURNAL_KIND)
        )

    def allow(
        self,
        principal: str,
        operation: Operation,
        resource: Resource,
        name: str,
        *,
        pattern: Pattern = Pattern.LITERAL,
        host: str = WILDCARD,
    ) -> Acl:
        """Allow an operation to a principal, unless another ACL denies it.

        Args:
            principal: "User:alice", or "User:*" for all.
            operation: The operation; READ, WRITE, DELETE and ALTER also allow DESCRIBE, and ALL
                allows everything.
            resource: The type of the resource.
            name: The name of the resource, "*" for all of the type, or a prefix with
                `Pattern.PREFIXED`.
            pattern: How the name matches.
            host: Applies only to clients from this address.

        Raises:
            InvalidRequestError: No ACL can be like that.
        """
        acl = Acl(resource, name, pattern, principal, host, operation, Permission.ALLOW)
        self.add(acl)
        return acl

    def deny(
        self,
        principal: str,
        operation: Operation,
        resource: Resource,
        name: str,
        *,
        pattern: Pattern = Pattern.LITERAL,
        host: str = WILDCARD,
    ) -> Acl:
        """Deny an operation, even if another ACL allows it; see `allow`.

        Denying READ does not deny DESCRIBE.
        """
        acl = Acl(resource, name, pattern, principal, host, operation, Permission.DENY)
        self.add(acl)
        return acl

    def add(self, acl: Acl) -> None:
        """Add an ACL; does nothing if it exists.

        Raises:
            InvalidRequestError: No ACL can be like that.
        """
        _check(acl)
        if acl not in self._acls:
            self._journal.note(_JOURNAL_KIND, tuple(acl), {})
            self._acls = (*self._acls, acl)

    def remove(self, which: AclFilter | Acl) -> list[Acl]:
        """Delete one ACL, or those that a filter matches; return the deleted ones."""
        removed = [acl for acl in self._acls if acl == which] if isinstance(which, Acl) else []
        if isinstance(which, AclFilter):
            removed = self.find(which)
        for acl in removed:
            self._journal.note(_JOURNAL_KIND, tuple(acl), None)
        self._acls = tuple(acl for acl in self._acls if acl not in removed)
        return removed

    def find(self, which: AclFilter) -> list[Acl]:
        """Return the ACLs that a filter matches."""
        return [acl for acl in self._acls if which.matches(acl)]

    def covering(self, resource: Resource, name: str) -> list[Acl]:
        """Return the ACLs that apply to a resource."""
        return [acl for acl in self._acls if acl.covers(resource, name)]


def _check(acl: Acl) -> None:
    if acl.resource in (Resource.UNKNOWN, Resource.ANY):
        raise InvalidRequestError(f"Invalid resourceType {acl.resource.name}")
    if acl.pattern not in (Pattern.LITERAL, Pattern.PREFIXED):
        raise InvalidRequestError(f"Invalid patternType {acl.pattern.name}")
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        raise InvalidRequestError(f"Invalid operation {acl.operation.name}")
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        raise InvalidRequestError(f"Invalid permissionType {acl.permission.name}")
    if ":" not in acl.principal:
        raise InvalidRequestError(f"principal {acl.principal!r} must have the form type:name")
    if not acl.name:
        raise InvalidRequestError("Resource name should not be empty")
    if acl.resource is Resource.CLUSTER and acl.name not in (CLUSTER_NAME, WILDCARD):
        raise InvalidRequestError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")


def _from_key(key: Iterable[str | int]) -> Acl:
    resource, name, pattern, principal, host, operation, permission = key
    return Acl(
        Resource(int(resource)),
        str(name),
        Pattern(int(pattern)),
        str(principal),
        str(host),
        Operation(int(operation)),
        Permission(int(permission)),
    )


_REFUSALS: Final[dict[Resource, type[BrokerResponseError]]] = {
    Resource.TOPIC: TopicAuthorizationFailedError,
    Resource.GROUP: GroupAuthorizationFailedError,
    Resource.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
    Resource.DELEGATION_TOKEN: DelegationTokenAuthorizationFailed,
    Resource.USER: DelegationTokenAuthorizationFailed,
}


def refusal(operation: Operation, resource: Resource, name: str) -> BrokerResponseError:
    """Return the error for a denied operation."""
    error = _REFUSALS.get(resource, ClusterAuthorizationFailedError)
    return error(f"{operation.name} of {resource.name} {name!r} is not allowed")


def acl_of_codes(
    resource: int,
    name: str,
    pattern: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> Acl:
    """Return the ACL in a request; unknown codes become UNKNOWN."""
    return Acl(
        _known(Resource, resource),
        name,
        _known(Pattern, pattern),
        principal,
        host,
        _known(Operation, operation),
        _known(Permission, permission),
    )


def filter_of_codes(
    resource: int,
    name: str | None,
    pattern: int,
    principal: str | None,
    host: str | None,
    operation: int,
    permission: int,
) -> AclFilter:
    """Return the filter in a request.

    Raises:
        InvalidRequestError: The filter contains an unknown code.
    """
    which = AclFilter(
        _known(Resource, resource),
        name,
        _known(Pattern, pattern),
        principal,
        host,
        _known(Operation, operation),
        _known(Permission, permission),
    )
    codes = (which.resource, which.pattern, which.operation, which.permission)
    if not all(codes):  # UNKNOWN is 0
        raise InvalidRequestError(f"{which} has unknown elements")
    return which


_Code = TypeVar("_Code", Resource, Pattern, Operation, Permission)


def _known(kind: type[_Code], code: int) -> _Code:
    return kind(code) if code in {known.value for known in kind} else kind(0)
