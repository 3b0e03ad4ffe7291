"""RemoveRaftVoter: rejected, because the controllers are static (kraft.version 0, KIP-853)."""

from aiokafka_lite.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.raft_voters import refusal_of
from aiokafka_lite.testing.wording import wording


def handle(request: RemoveRaftVoterRequest, context: RequestContext) -> RemoveRaftVoterResponse:
    refusal = refusal_of(context, request.cluster_id, request.voter_directory_id)
    return RemoveRaftVoterResponse(error_code=refusal.errno, error_message=wording(refusal))
