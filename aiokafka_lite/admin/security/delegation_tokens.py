"""Creates, renews, expires and describes delegation tokens.

Source: CreateDelegationTokenRequest.json v0-v3, RenewDelegationTokenRequest.json v0-v2,
ExpireDelegationTokenRequest.json v0-v2, DescribeDelegationTokenRequest.json v0-v3, KIP-48, KIP-373.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from aiokafka_lite._arguments import whole, wire_string
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_errors import only_controller_errors, perhaps_ours
from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.cluster.retry import ANY
from aiokafka_lite.errors import DelegationTokenNotFound, IllegalArgumentError
from aiokafka_lite.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from aiokafka_lite.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from aiokafka_lite.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from aiokafka_lite.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

__all__ = [
    "DelegationToken",
    "create_delegation_token",
    "describe_delegation_token",
    "expire_delegation_token",
    "renew_delegation_token",
]

_OWNERS_FROM: Final = 3
"""The version in which a token can have another owner than its requester (KIP-373)."""
_DEFAULT: Final = -1  # a period: the broker's default; of an expiry: at once
_FEATURE: Final = "Delegation tokens"
_TOKEN: Final = "delegation token"


class _Answer(Protocol):
    """A response about one token."""

    error_code: int


A = TypeVar("A", bound=_Answer)


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token that a client can log in with in place of its owner.

    Log in with SASL/SCRAM, `sasl_scram_tokenauth=True`, `token_id` as user name and `password`.

    Attributes:
        token_id: The user name to log in with.
        hmac: The secret, which is in no repr.
        owner: The principal that the token stands for, such as "User:alice".
        requester: Who created it; None from brokers before 3.3, which have only owners.
        renewers: Who may renew it, beside its owner.
        issue_timestamp, expiry_timestamp, max_timestamp: When it was created, when it expires
            unless it is renewed, and until when it can be renewed, in ms since 1970.
    """

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str | None
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int

    @property
    def password(self) -> str:
        """The secret in base64: the password to log in with."""
        return base64.b64encode(self.hmac).decode()


async def create_delegation_token(
    dispatcher: Dispatcher,
    renewers: Iterable[str],
    timeout_ms: float | None,
    *,
    owner: str | None,
    max_lifetime_ms: int | None,
) -> DelegationToken:
    """See `AIOKafkaAdminClient.create_delegation_token`."""
    deadline = dispatcher.deadline(timeout_ms)
    may_renew = _principals("renewers", renewers)
    of = None if owner is None else _principal("owner", owner)
    lifetime = _period("max_lifetime_ms", max_lifetime_ms)

    def build(version: int, pending: list[str]) -> CreateDelegationTokenRequest:
        request = CreateDelegationTokenRequest(
            renewers=[CreatableRenewers(kind, name) for kind, name in may_renew],
            max_lifetime_ms=lifetime,
        )
        if version >= _OWNERS_FROM:
            request.owner_principal_type, request.owner_principal_name = of or (None, None)
        return request

    outcomes: Outcomes[str, CreateDelegationTokenResponse] = _outcomes()
    results = await dispatcher.settle(
        outcomes,
        CreateDelegationTokenRequest,
        build,
        _read,
        ANY,
        deadline,
        oldest=0 if of is None else _OWNERS_FROM,
        feature=_FEATURE if of is None else "Creating a delegation token for another owner",
    )
    answer = results.value(_TOKEN)
    return DelegationToken(
        answer.token_id,
        answer.hmac,
        f"{answer.principal_type}:{answer.principal_name}",
        _requester(answer.token_requester_principal_type, answer.token_requester_principal_name),
        tuple(f"{kind}:{name}" for kind, name in may_renew),
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
    )


async def renew_delegation_token(
    dispatcher: Dispatcher, hmac: bytes, timeout_ms: float | None, *, renew_period_ms: int | None
) -> int:
    """See `AIOKafkaAdminClient.renew_delegation_token`."""
    deadline = dispatcher.deadline(timeout_ms)
    request = RenewDelegationTokenRequest(
        _secret(hmac), _period("renew_period_ms", renew_period_ms)
    )
    outcomes: Outcomes[str, RenewDelegationTokenResponse] = _outcomes()
    results = await dispatcher.settle(
        outcomes,
        RenewDelegationTokenRequest,
        lambda version, pending: request,
        _read,
        ANY,
        deadline,
        feature=_FEATURE,
    )
    return results.value(_TOKEN).expiry_timestamp_ms


async def expire_delegation_token(
    dispatcher: Dispatcher, hmac: bytes, timeout_ms: float | None, *, expiry_period_ms: int | None
) -> int:
    """See `AIOKafkaAdminClient.expire_delegation_token`."""
    deadline = dispatcher.deadline(timeout_ms)
    request = ExpireDelegationTokenRequest(
        _secret(hmac), _period("expiry_period_ms", expiry_period_ms)
    )
    outcomes: Outcomes[str, ExpireDelegationTokenResponse] = _outcomes()

    def read(
        answer: ExpireDelegationTokenResponse,
        outcomes: Outcomes[str, ExpireDelegationTokenResponse],
    ) -> None:
        if answer.error_code == DelegationTokenNotFound.errno:
            message = perhaps_ours(outcomes, _TOKEN, "expired", None)
            outcomes.on_code(_TOKEN, answer.error_code, message)
        else:
            _read(answer, outcomes)

    results = await dispatcher.settle(
        outcomes,
        ExpireDelegationTokenRequest,
        lambda version, pending: request,
        read,
        ANY,
        deadline,
        feature=_FEATURE,
    )
    return results.value(_TOKEN).expiry_timestamp_ms


async def describe_delegation_token(
    dispatcher: Dispatcher, owners: Iterable[str] | None, timeout_ms: float | None
) -> list[DelegationToken]:
    """See `AIOKafkaAdminClient.describe_delegation_token`."""
    deadline = dispatcher.deadline(timeout_ms)
    wanted = None if owners is None else _principals("owners", owners)
    if wanted == []:
        return []
    answer = await dispatcher.ask(
        DescribeDelegationTokenRequest(
            owners=None
            if wanted is None
            else [DescribeDelegationTokenOwner(kind, name) for kind, name in wanted]
        ),
        ANY,
        deadline,
        feature=_FEATURE,
    )
    return [
        DelegationToken(
            each.token_id,
            each.hmac,
            f"{each.principal_type}:{each.principal_name}",
            _requester(each.token_requester_principal_type, each.token_requester_principal_name),
            tuple(f"{who.principal_type}:{who.principal_name}" for who in each.renewers),
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
        )
        for each in answer.tokens
    ]


def _outcomes() -> Outcomes[str, A]:
    return Outcomes([_TOKEN], str, retriable=only_controller_errors(False))


def _read(answer: A, outcomes: Outcomes[str, A]) -> None:
    if not outcomes.on_code(_TOKEN, answer.error_code):
        outcomes.on_value(_TOKEN, answer)


def _requester(kind: str, name: str) -> str | None:
    return f"{kind}:{name}" if kind else None


def _principals(what: str, given: object) -> list[tuple[str, str]]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"`{what}` should be a collection of principals, not {given!r}")
    return list(dict.fromkeys(_principal(what, each) for each in given))


def _principal(what: str, given: object) -> tuple[str, str]:
    kind, _, name = wire_string(what, given).partition(":")
    if not kind or not name:
        raise IllegalArgumentError(
            f"`{what}`: a principal has the form 'User:alice', not {given!r}"
        )
    return kind, name


def _period(what: str, given: object) -> int:
    return _DEFAULT if given is None else whole(what, given)


def _secret(hmac: object) -> bytes:
    if not isinstance(hmac, bytes):
        raise TypeError(f"`hmac` should be the bytes of a token, not {type(hmac).__name__}")
    if not hmac:
        raise IllegalArgumentError("`hmac` is empty")
    return hmac
