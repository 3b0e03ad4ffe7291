"""ACLs and the filters that match them.

Source: KIP-11, KIP-140, KIP-290 (prefixed patterns), KIP-373 (users as resources).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from aiokafka_lite._arguments import wire_string
from aiokafka_lite.admin.core.authorized_operations import AclOperation
from aiokafka_lite.errors import IllegalArgumentError

__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "AclPermission",
    "PatternType",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
]


def _check_member(name: str, value: Any, kind: type[object]) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` should be a {kind.__name__}, not {value!r}")


def _refuse(name: str, value: enum.IntEnum, *of_filters: enum.IntEnum) -> None:
    if value in of_filters:
        raise IllegalArgumentError(f"`{name}` of an ACL cannot be {value.name}: only filters can")


class ResourceType(enum.IntEnum):
    """A kind of resource that ACLs protect; the values are Kafka's."""

    UNKNOWN = 0
    """A kind that is newer than this client."""
    ANY = 1
    """Every kind: in filters only."""
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    """The cluster; the name of this resource is "kafka-cluster"."""
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(enum.IntEnum):
    """How a pattern matches the names of resources (KIP-290); the values are Kafka's."""

    UNKNOWN = 0
    """A type that is newer than this client."""
    ANY = 1
    """In filters only: patterns of both types that have exactly the filter's name."""
    MATCH = 2
    """In filters only: every pattern that applies to a resource with the filter's name: the literal
    one, the wildcard "*", and all prefixes of it."""
    LITERAL = 3
    """The name itself; "*" is every name."""
    PREFIXED = 4
    """Every name that begins with the pattern's."""


class AclPermission(enum.IntEnum):
    """What an ACL does with an operation; the values are Kafka's. DENY prevails over ALLOW."""

    UNKNOWN = 0
    """A value that is newer than this client."""
    ANY = 1
    """Both: in filters only."""
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class ResourcePattern:
    """The resources that an ACL is about.

    Args:
        resource_type: The kind of the resources.
        name: Their name or prefix; "*" with LITERAL: every name.
        pattern_type: LITERAL or PREFIXED.

    Raises:
        TypeError: An argument has the wrong type.
        IllegalArgumentError: A value that only filters may have (ANY, MATCH).
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __post_init__(self) -> None:
        _check_member("resource_type", self.resource_type, ResourceType)
        _check_member("pattern_type", self.pattern_type, PatternType)
        wire_string("name", self.name)
        _refuse("resource_type", self.resource_type, ResourceType.ANY)
        _refuse("pattern_type", self.pattern_type, PatternType.ANY, PatternType.MATCH)

    def __str__(self) -> str:
        return f"{self.resource_type.name} {self.pattern_type.name} {self.name!r}"


@dataclass(frozen=True, slots=True)
class ResourcePatternFilter:
    """Matches resource patterns; by default every one.

    Args:
        resource_type: ANY: every kind.
        name: None: every name.
        pattern_type: ANY: both types; MATCH: all patterns that apply to `name`.

    Raises:
        TypeError: An argument has the wrong type.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY

    def __post_init__(self) -> None:
        _check_member("resource_type", self.resource_type, ResourceType)
        _check_member("pattern_type", self.pattern_type, PatternType)
        if self.name is not None:
            wire_string("name", self.name)

    def __str__(self) -> str:
        name = "any name" if self.name is None else repr(self.name)
        return f"{self.resource_type.name} {self.pattern_type.name} {name}"


@dataclass(frozen=True, slots=True)
class AclBinding:
    """An ACL: who may, or may not, do what with which resources.

        AclBinding(
            ResourcePattern(ResourceType.TOPIC, "orders"), "User:alice", AclOperation.READ
        )

    Args:
        pattern: The resources.
        principal: Who, such as "User:alice"; "User:*" is all users.
        operation: What; ALL: every operation.
        permission: ALLOW or DENY.
        host: The address that the client connects from; "*": any address.

    Raises:
        TypeError: An argument has the wrong type.
        IllegalArgumentError: A value that only filters may have (ANY).
    """

    pattern: ResourcePattern
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"

    def __post_init__(self) -> None:
        _check_member("pattern", self.pattern, ResourcePattern)
        _check_member("operation", self.operation, AclOperation)
        _check_member("permission", self.permission, AclPermission)
        wire_string("principal", self.principal)
        wire_string("host", self.host)
        _refuse("operation", self.operation, AclOperation.ANY)
        _refuse("permission", self.permission, AclPermission.ANY)

    @property
    def is_unknown(self) -> bool:
        """True if a part of the ACL is newer than this client, which cannot create it then."""
        parts = (self.pattern.resource_type, self.pattern.pattern_type)
        return 0 in (*parts, self.operation, self.permission)

    def to_filter(self) -> AclBindingFilter:
        """Return the filter that matches this ACL only."""
        pattern = self.pattern
        return AclBindingFilter(
            ResourcePatternFilter(pattern.resource_type, pattern.name, pattern.pattern_type),
            self.principal,
            self.operation,
            self.permission,
            self.host,
        )

    def __str__(self) -> str:
        what = f"{self.permission.name} {self.operation.name} on {self.pattern}"
        return f"{what} to {self.principal!r} from {self.host!r}"


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """Matches ACLs; by default every one.

    Args:
        pattern: Matches their resources.
        principal: None: every principal.
        operation: ANY: every operation. ALL matches only ACLs for ALL.
        permission: ANY: both.
        host: None: every host.

    Raises:
        TypeError: An argument has the wrong type.
    """

    pattern: ResourcePatternFilter = ResourcePatternFilter()
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None

    def __post_init__(self) -> None:
        _check_member("pattern", self.pattern, ResourcePatternFilter)
        _check_member("operation", self.operation, AclOperation)
        _check_member("permission", self.permission, AclPermission)
        if self.principal is not None:
            wire_string("principal", self.principal)
        if self.host is not None:
            wire_string("host", self.host)

    @property
    def is_unknown(self) -> bool:
        """True if a part of the filter is UNKNOWN, which no broker accepts."""
        parts = (self.pattern.resource_type, self.pattern.pattern_type)
        return 0 in (*parts, self.operation, self.permission)

    def __str__(self) -> str:
        who = "any principal" if self.principal is None else repr(self.principal)
        host = "any host" if self.host is None else repr(self.host)
        what = f"{self.permission.name} {self.operation.name} on {self.pattern}"
        return f"{what} to {who} from {host}"
