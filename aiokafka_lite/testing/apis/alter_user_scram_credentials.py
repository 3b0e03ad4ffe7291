"""AlterUserScramCredentials, v0: set and delete SCRAM credentials (KIP-554).

The request contains the salted password, so the broker never sees the password itself. A request
may contain a user only once. Open connections stay open.
"""

from collections.abc import Callable
from typing import TypeAlias

from aiokafka_lite.errors import (
    BrokerResponseError,
    DuplicateResourceError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from aiokafka_lite.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.security.credentials import credential_of
from aiokafka_lite.testing.security.users import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    SCRAM_MECHANISMS,
    Users,
)
from aiokafka_lite.testing.wording import wording

_Alteration: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion


def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    users = context.state.users
    asked: list[_Alteration] = [*request.deletions, *request.upsertions]
    try:
        context.check()
        context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
    except BrokerResponseError as error:
        results = {one.name: _refused(one.name, error) for one in asked}
        return AlterUserScramCredentialsResponse(results=list(results.values()))
    changes: dict[str, Callable[[], None]] = {}
    refused: dict[str, AlterUserScramCredentialsResult] = {}
    for one in asked:
        if one.name in refused:
            continue
        try:
            if changes.pop(one.name, None) is not None:
                raise DuplicateResourceError(
                    "A user credential cannot be altered twice in the same request"
                )
            changes[one.name] = _change(one, users)
        except BrokerResponseError as error:
            refused[one.name] = _refused(one.name, error)
    for change in changes.values():
        change()
    done = [AlterUserScramCredentialsResult(name, error_message=None) for name in changes]
    return AlterUserScramCredentialsResponse(results=done + list(refused.values()))


def _change(one: _Alteration, users: Users) -> Callable[[], None]:
    """Check an alteration, and return the function that applies it."""
    if not one.name:
        raise UnacceptableCredentialError("Username must not be empty")
    mechanism = SCRAM_MECHANISMS.get(one.mechanism)
    if mechanism is None:
        raise UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
    if isinstance(one, ScramCredentialDeletion):
        if users.credential(one.name, mechanism) is None:
            raise ResourceNotFoundError("Attempt to delete a user credential that does not exist")
        return lambda: users.remove_credential(one.name, mechanism)
    if one.iterations < LEAST_ITERATIONS:
        raise UnacceptableCredentialError("Too few iterations")
    if one.iterations > MOST_ITERATIONS:
        raise UnacceptableCredentialError("Too many iterations")
    credential = credential_of(mechanism, one.salted_password, one.salt, one.iterations)
    return lambda: users.put_credential(one.name, mechanism, credential)


def _refused(name: str, error: BrokerResponseError) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(name, error.errno, wording(error))
