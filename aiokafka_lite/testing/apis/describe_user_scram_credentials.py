"""DescribeUserScramCredentials, v0: the mechanisms and iterations of credentials (KIP-554)."""

from collections import Counter

from aiokafka_lite.errors import (
    BrokerResponseError,
    DuplicateResourceError,
    ResourceNotFoundError,
)
from aiokafka_lite.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.security.users import SCRAM_MECHANISMS, Users
from aiokafka_lite.testing.wording import wording


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    users = context.state.users
    try:
        context.check()
        context.authorize(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    except BrokerResponseError as error:
        return DescribeUserScramCredentialsResponse(
            error_code=error.errno,
            error_message=wording(error),
            results=[
                # Kafka omits the names, and returns nothing if none was requested.
                DescribeUserScramCredentialsResult("", error.errno, wording(error))
                for _ in request.users or ()
            ],
        )
    named = Counter(asked.name for asked in request.users or ()) or Counter(users.scram_users())
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[_describe(name, times, users) for name, times in named.items()],
    )


def _describe(name: str, times: int, users: Users) -> DescribeUserScramCredentialsResult:
    credentials = {
        number: users.credential(name, mechanism) for number, mechanism in SCRAM_MECHANISMS.items()
    }
    infos = [
        CredentialInfo(number, credential.iterations)
        for number, credential in credentials.items()
        if credential is not None
    ]
    try:
        if times > 1:
            raise DuplicateResourceError(f"the request contains user {name} twice")
        if not infos:
            raise ResourceNotFoundError(f"user {name} has no SCRAM credential")
    except BrokerResponseError as error:
        return DescribeUserScramCredentialsResult(name, error.errno, wording(error))
    return DescribeUserScramCredentialsResult(name, error_message=None, credential_infos=infos)
