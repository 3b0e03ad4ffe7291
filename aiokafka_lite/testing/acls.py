"""Who may do what: a table of ACLs, as ``StandardAuthorizer`` reads it. No I/O.

A cluster without ``authorizer`` allows everything and looks at no table.
"""

from enum import IntEnum

from aiokafka_lite.errors import (
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

__all__ = ["Operation", "Resource", "refusal"]


class Operation(IntEnum):
    """What is done (``org.apache.kafka.common.acl.AclOperation``)."""

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
    """What it is done to (``org.apache.kafka.common.resource.ResourceType``)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


_REFUSALS: dict[Resource, type[BrokerResponseError]] = {
    Resource.TOPIC: TopicAuthorizationFailedError,
    Resource.GROUP: GroupAuthorizationFailedError,
    Resource.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}


def refusal(operation: Operation, resource: Resource, name: str) -> BrokerResponseError:
    """The error that answers what is not allowed."""
    error = _REFUSALS.get(resource, ClusterAuthorizationFailedError)
    return error(f"{operation.name} of {resource.name} {name!r} is not allowed")
