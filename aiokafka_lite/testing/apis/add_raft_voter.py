"""AddRaftVoter: rejected, because the controllers are static (kraft.version 0, KIP-853)."""

from aiokafka_lite.protocol.messages.add_raft_voter import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.raft_voters import refusal_of
from aiokafka_lite.testing.wording import wording


def handle(request: AddRaftVoterRequest, context: RequestContext) -> AddRaftVoterResponse:
    refusal = refusal_of(context, request.cluster_id, request.voter_directory_id)
    return AddRaftVoterResponse(error_code=refusal.errno, error_message=wording(refusal))
