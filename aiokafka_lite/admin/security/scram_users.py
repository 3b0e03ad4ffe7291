"""Describes and alters the SCRAM credentials of users.

Kafka stores a salted password; this client computes it, so that a broker never sees the password.

Source: DescribeUserScramCredentialsRequest.json v0, AlterUserScramCredentialsRequest.json v0,
KIP-554, RFC 5802. As in the Java client, passwords are plain UTF-8 (no SASLprep).
"""

from __future__ import annotations

import asyncio
import enum
import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from aiokafka_lite._arguments import whole, wire_string
from aiokafka_lite._threads import ThreadPool
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_errors import only_controller_errors, perhaps_ours
from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.cluster.retry import ANY, CONTROLLER, raise_error_code
from aiokafka_lite.errors import (
    IllegalArgumentError,
    KafkaError,
    KafkaTimeoutError,
    ResourceNotFoundError,
)
from aiokafka_lite.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from aiokafka_lite.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

__all__ = [
    "ScramCredential",
    "ScramMechanism",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "alter_user_scram_credentials",
    "describe_user_scram_credentials",
]

LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384
"""What brokers accept."""
_SALT_SIZE: Final = 20
_FEATURE: Final = "Administering SCRAM credentials"

_threads: Final = ThreadPool("aiokafka_lite-scram", 2)
"""Threads for the salting, which can take seconds; separate from those that decompress records."""


class ScramMechanism(enum.IntEnum):
    """A SCRAM mechanism; the values are Kafka's."""

    UNKNOWN = 0
    """A mechanism that is newer than this client."""
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


_HASHES: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A credential that a user has; brokers return no passwords.

    Attributes:
        iterations: How often the password is hashed.
    """

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """Sets the password of a user for one mechanism, and creates the user if it is new.

    Args:
        user: The user's name.
        mechanism: What the user logs in with.
        password: A str is encoded in UTF-8. It is in no repr.
        iterations: How often the password is hashed; 4096 to 16384.
        salt: Random bytes; None: the client makes them.

    Raises:
        TypeError: An argument has the wrong type.
        IllegalArgumentError: A value is out of range, or empty.
    """

    user: str
    mechanism: ScramMechanism
    password: str | bytes = field(repr=False)
    iterations: int = LEAST_ITERATIONS
    salt: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_user(self.user)
        _check_mechanism(self.mechanism)
        password: object = self.password
        if not isinstance(password, str | bytes):
            kind = type(password).__name__
            raise TypeError(f"`password` should be a str or bytes, not {kind}")
        if not self.password:
            raise IllegalArgumentError("`password` is empty")
        _encoded(self.password)
        whole("iterations", self.iterations, least=LEAST_ITERATIONS, most=MOST_ITERATIONS)
        salt: object = self.salt
        if salt is not None and not isinstance(salt, bytes):
            raise TypeError(f"`salt` should be bytes or None, not {type(salt).__name__}")
        if self.salt == b"":
            raise IllegalArgumentError("`salt` is empty; None generates a random one")


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    """Deletes the credential that a user has for one mechanism.

    Raises:
        TypeError: An argument has the wrong type.
        IllegalArgumentError: The name is empty, or the mechanism UNKNOWN.
    """

    user: str
    mechanism: ScramMechanism

    def __post_init__(self) -> None:
        _check_user(self.user)
        _check_mechanism(self.mechanism)


Alteration: TypeAlias = UserScramCredentialUpsertion | UserScramCredentialDeletion


async def describe_user_scram_credentials(
    dispatcher: Dispatcher, users: Iterable[str] | None, timeout_ms: float | None
) -> Results[str, tuple[ScramCredential, ...]]:
    """See `AIOKafkaAdminClient.describe_user_scram_credentials`."""
    deadline = dispatcher.deadline(timeout_ms)
    if users is None:
        answer = await dispatcher.ask(
            DescribeUserScramCredentialsRequest(users=None), ANY, deadline, feature=_FEATURE
        )
        everyone: dict[str, tuple[ScramCredential, ...] | KafkaError] = {}
        for each in answer.results:
            everyone[each.user] = (
                item_error(each.error_code, _label(each.user), each.error_message)
                if each.error_code
                else _credentials(each.credential_infos)
            )
        return Results(everyone)
    if isinstance(users, str) or not isinstance(users, Iterable):
        raise TypeError(f"`users` should be a collection of names or None, not {users!r}")
    outcomes: Outcomes[str, tuple[ScramCredential, ...]] = Outcomes(
        [_check_user(user) for user in users], _label
    )

    def build(version: int, pending: list[str]) -> DescribeUserScramCredentialsRequest:
        return DescribeUserScramCredentialsRequest(users=[UserName(user) for user in pending])

    def read(
        response: DescribeUserScramCredentialsResponse,
        outcomes: Outcomes[str, tuple[ScramCredential, ...]],
    ) -> None:
        raise_error_code(response)
        for each in response.results:
            if not outcomes.on_code(each.user, each.error_code, each.error_message):
                outcomes.on_value(each.user, _credentials(each.credential_infos))

    return await dispatcher.settle(
        outcomes,
        DescribeUserScramCredentialsRequest,
        build,
        read,
        ANY,
        deadline,
        feature=_FEATURE,
    )


async def alter_user_scram_credentials(
    dispatcher: Dispatcher, alterations: Iterable[Alteration], timeout_ms: float | None
) -> Results[str, None]:
    """See `AIOKafkaAdminClient.alter_user_scram_credentials`."""
    loop = asyncio.get_running_loop()
    began, deadline = loop.time(), dispatcher.deadline(timeout_ms)
    wanted = _by_user(alterations)
    try:
        async with asyncio.timeout_at(deadline):  # salting is slow by design
            salted = await _threads.run(loop, _salt_all, wanted)
    except TimeoutError:
        raise KafkaTimeoutError(
            f"Salting the passwords did not complete within {deadline - began:.3g} s, so nothing "
            "was sent: allow more time with timeout_ms, or use fewer iterations"
        ) from None
    outcomes: Outcomes[str, None] = Outcomes(
        wanted, _label, retriable=only_controller_errors(False)
    )

    def build(version: int, pending: list[str]) -> AlterUserScramCredentialsRequest:
        return AlterUserScramCredentialsRequest(
            deletions=[
                ScramCredentialDeletion(user, wanted[user].mechanism)
                for user in pending
                if user not in salted
            ],
            upsertions=[salted[user] for user in pending if user in salted],
        )

    def read(response: AlterUserScramCredentialsResponse, outcomes: Outcomes[str, None]) -> None:
        for each in response.results:
            if not each.error_code:
                outcomes.on_value(each.user, None)
                continue
            message = each.error_message
            if each.error_code == ResourceNotFoundError.errno:
                message = perhaps_ours(outcomes, each.user, "deleted", message)
            outcomes.on_code(each.user, each.error_code, message)

    return await dispatcher.settle(
        outcomes,
        AlterUserScramCredentialsRequest,
        build,
        read,
        CONTROLLER,
        deadline,
        feature=_FEATURE,
    )


def _by_user(alterations: object) -> dict[str, Alteration]:
    if not isinstance(alterations, Iterable):
        kind = type(alterations).__name__
        raise TypeError(
            f"`alterations` should be a collection of upsertions or deletions, not {kind}"
        )
    wanted: dict[str, Alteration] = {}
    for each in alterations:
        if not isinstance(each, UserScramCredentialUpsertion | UserScramCredentialDeletion):
            raise TypeError(
                "`alterations` should be UserScramCredentialUpsertion and "
                f"UserScramCredentialDeletion objects, not {type(each).__name__}"
            )
        if each.user in wanted:
            raise IllegalArgumentError(
                f"{_label(each.user)} is altered twice; Kafka accepts one credential per user in "
                "a request: use a separate call for each"
            )
        wanted[each.user] = each
    return wanted


def _salt_all(wanted: Mapping[str, Alteration]) -> dict[str, ScramCredentialUpsertion]:
    salted = {}
    for user, each in wanted.items():
        if isinstance(each, UserScramCredentialUpsertion):
            salt = each.salt or secrets.token_bytes(_SALT_SIZE)
            derived = hashlib.pbkdf2_hmac(
                _HASHES[each.mechanism], _encoded(each.password), salt, each.iterations
            )
            salted[user] = ScramCredentialUpsertion(
                user, each.mechanism, each.iterations, salt, derived
            )
    return salted


def _encoded(password: str | bytes) -> bytes:
    if isinstance(password, bytes):
        return password
    try:
        return password.encode()
    except UnicodeEncodeError:
        pass  # the error contains the password, so it must not become a cause or context
    raise IllegalArgumentError("`password` cannot be encoded in UTF-8: it has a lone surrogate")


def _credentials(infos: list[CredentialInfo]) -> tuple[ScramCredential, ...]:
    return tuple(ScramCredential(_mechanism(each.mechanism), each.iterations) for each in infos)


def _mechanism(code: int) -> ScramMechanism:
    try:
        return ScramMechanism(code)
    except ValueError:
        return ScramMechanism.UNKNOWN


def _check_user(user: object) -> str:
    name = wire_string("user", user)
    if not name:
        raise IllegalArgumentError("`user` is empty")
    return name


def _check_mechanism(mechanism: object) -> None:
    if not isinstance(mechanism, ScramMechanism):
        raise TypeError(f"`mechanism` should be a ScramMechanism, not {mechanism!r}")
    if mechanism is ScramMechanism.UNKNOWN:
        raise IllegalArgumentError("`mechanism` cannot be UNKNOWN")


def _label(user: str) -> str:
    return f"user {user!r}"
