"""RemoveRaftVoter: refused, as where the controllers are fixed (kraft.version 0, KIP-853)."""

from aiokafka_lite.errors import (
    BrokerResponseError,
    InconsistentClusterIdError,
    InvalidRequestError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.testing.acls import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.wording import wording


def handle(request: RemoveRaftVoterRequest, context: RequestContext) -> RemoveRaftVoterResponse:
    try:
        context.check()
        context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
        if request.cluster_id not in (None, context.state.cluster_id):
            raise InconsistentClusterIdError(
                f'The given id "{request.cluster_id}" does not match the cluster id'
                f' "{context.state.cluster_id}"'
            )
        if request.voter_directory_id == ZERO_UUID:
            raise InvalidRequestError("a voter is told by its directory id too")
        raise UnsupportedVersionError("the controllers are fixed: kraft.version is 0")
    except BrokerResponseError as error:
        return RemoveRaftVoterResponse(error_code=error.errno, error_message=wording(error))
