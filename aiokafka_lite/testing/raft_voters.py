"""Controller voters (KIP-853), which are static here (kraft.version 0)."""

from uuid import UUID

from aiokafka_lite.errors import (
    BrokerResponseError,
    InconsistentClusterIdError,
    InvalidRequestError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource

__all__ = ["refusal_of"]


def refusal_of(
    context: RequestContext, cluster_id: str | None, directory_id: UUID
) -> BrokerResponseError:
    """Return the error for a request to add or remove a voter.

    Args:
        context: The request's context.
        cluster_id: The cluster id in the request; None for any cluster.
        directory_id: The voter's directory id.
    """
    try:
        context.check()
        context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
    except BrokerResponseError as refusal:
        return refusal
    known = context.state.cluster_id
    if cluster_id not in (None, known):
        return InconsistentClusterIdError(
            f'The given id "{cluster_id}" does not match the cluster id "{known}"'
        )
    if directory_id == ZERO_UUID:
        return InvalidRequestError("the voter's directory id must not be zero")
    return UnsupportedVersionError("the set of controllers is static: kraft.version is 0")
