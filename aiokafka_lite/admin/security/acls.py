"""Describes, creates and deletes ACLs.

Source: DescribeAclsRequest.json v0-v3, CreateAclsRequest.json v0-v3, DeleteAclsRequest.json v0-v3,
KIP-140, KIP-290.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final, TypeVar

from aiokafka_lite.admin.core.authorized_operations import AclOperation
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_errors import only_controller_errors
from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.security.acl_types import (
    AclBinding,
    AclBindingFilter,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.retry import ANY
from aiokafka_lite.errors import IllegalArgumentError, KafkaError
from aiokafka_lite.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from aiokafka_lite.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from aiokafka_lite.protocol.messages.describe_acls import DescribeAclsRequest

__all__ = ["DeleteAclsResult", "create_acls", "delete_acls", "describe_acls"]

_PATTERNS_FROM: Final = 1
"""The version that has pattern types (KIP-290); before, every pattern is literal."""
_FEATURE: Final = "Pattern types of ACLs other than LITERAL"

E = TypeVar("E", bound=enum.IntEnum)
T = TypeVar("T")


class DeleteAclsResult(Results[AclBindingFilter, Results[AclBinding, None]]):
    """The outcome of `delete_acls` for each filter: the ACLs that matched, None if deleted."""

    __slots__ = ()

    def raise_for_errors(self) -> dict[AclBindingFilter, Results[AclBinding, None]]:
        """Return the outcome of every filter, if every ACL that matched is deleted.

        Raises:
            KafkaError: The first error of a filter or of an ACL.
        """
        settled = super().raise_for_errors()
        for matches in settled.values():
            matches.raise_for_errors()
        return settled

    def deleted(self) -> list[AclBinding]:
        """Return the ACLs that were deleted, each once."""
        return list(
            dict.fromkeys(acl for matches in self.valid().values() for acl in matches.valid())
        )


async def describe_acls(
    dispatcher: Dispatcher, acl_filter: AclBindingFilter, timeout_ms: float | None
) -> list[AclBinding]:
    """See `AIOKafkaAdminClient.describe_acls`."""
    deadline = dispatcher.deadline(timeout_ms)
    _check_filter(acl_filter)

    def build(version: int) -> DescribeAclsRequest:
        return DescribeAclsRequest(
            resource_type_filter=acl_filter.pattern.resource_type,
            resource_name_filter=acl_filter.pattern.name,
            pattern_type_filter=_pattern_type(acl_filter, version),
            principal_filter=acl_filter.principal,
            host_filter=acl_filter.host,
            operation=acl_filter.operation,
            permission_type=acl_filter.permission,
        )

    answer = await dispatcher.ask(
        PerVersion(DescribeAclsRequest, build),
        ANY,
        deadline,
        oldest=_oldest([acl_filter.pattern.pattern_type]),
        feature=_FEATURE,
    )
    return [
        AclBinding(
            _pattern(each.resource_type, each.resource_name, each.pattern_type),
            acl.principal,
            _known(AclOperation, acl.operation, AclOperation.ANY),
            _known(AclPermission, acl.permission_type, AclPermission.ANY),
            acl.host,
        )
        for each in answer.resources
        for acl in each.acls
    ]


async def create_acls(
    dispatcher: Dispatcher, acls: Iterable[AclBinding], timeout_ms: float | None
) -> Results[AclBinding, None]:
    """See `AIOKafkaAdminClient.create_acls`."""
    deadline = dispatcher.deadline(timeout_ms)
    wanted = _several("acls", acls, AclBinding)
    for acl in wanted:
        if acl.is_unknown:
            raise IllegalArgumentError(f"an ACL with an UNKNOWN part cannot be created: {acl}")
    outcomes: Outcomes[AclBinding, None] = Outcomes(
        wanted, _label, retriable=only_controller_errors(False)
    )
    asked: list[AclBinding] = []

    def build(version: int, pending: list[AclBinding]) -> CreateAclsRequest:
        nonlocal asked
        asked = pending
        return CreateAclsRequest(creations=[_creation(acl) for acl in pending])

    def read(response: CreateAclsResponse, outcomes: Outcomes[AclBinding, None]) -> None:
        # The results have the order of the request, and no names.
        for acl, result in zip(asked, response.results, strict=False):
            if not outcomes.on_code(acl, result.error_code, result.error_message):
                outcomes.on_value(acl, None)

    return await dispatcher.settle(
        outcomes,
        CreateAclsRequest,
        build,
        read,
        ANY,
        deadline,
        oldest=_oldest(acl.pattern.pattern_type for acl in wanted),
        feature=_FEATURE,
    )


async def delete_acls(
    dispatcher: Dispatcher, filters: Iterable[AclBindingFilter], timeout_ms: float | None
) -> DeleteAclsResult:
    """See `AIOKafkaAdminClient.delete_acls`."""
    deadline = dispatcher.deadline(timeout_ms)
    wanted = _several("filters", filters, AclBindingFilter)
    for acl_filter in wanted:
        _check_filter(acl_filter)
    outcomes: Outcomes[AclBindingFilter, Results[AclBinding, None]] = Outcomes(
        wanted, _label_of_filter, retriable=only_controller_errors(False)
    )
    asked: list[AclBindingFilter] = []

    def build(version: int, pending: list[AclBindingFilter]) -> DeleteAclsRequest:
        nonlocal asked
        asked = pending
        return DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=each.pattern.resource_type,
                    resource_name_filter=each.pattern.name,
                    pattern_type_filter=_pattern_type(each, version),
                    principal_filter=each.principal,
                    host_filter=each.host,
                    operation=each.operation,
                    permission_type=each.permission,
                )
                for each in pending
            ]
        )

    def read(
        response: DeleteAclsResponse,
        outcomes: Outcomes[AclBindingFilter, Results[AclBinding, None]],
    ) -> None:
        # The results have the order of the request, and no names.
        for each, result in zip(asked, response.filter_results, strict=False):
            if not outcomes.on_code(each, result.error_code, result.error_message):
                outcomes.on_value(each, _deleted(result.matching_acls))

    settled = await dispatcher.settle(
        outcomes,
        DeleteAclsRequest,
        build,
        read,
        ANY,
        deadline,
        oldest=_oldest(each.pattern.pattern_type for each in wanted),
        feature=_FEATURE,
    )
    return DeleteAclsResult(settled)


def _deleted(matching: list[DeleteAclsMatchingAcl]) -> Results[AclBinding, None]:
    outcomes: dict[AclBinding, KafkaError | None] = {}
    for each in matching:
        acl = AclBinding(
            _pattern(each.resource_type, each.resource_name, each.pattern_type),
            each.principal,
            _known(AclOperation, each.operation, AclOperation.ANY),
            _known(AclPermission, each.permission_type, AclPermission.ANY),
            each.host,
        )
        code = each.error_code
        outcomes[acl] = item_error(code, _label(acl), each.error_message) if code else None
    return Results(outcomes)


def _several(name: str, given: object, kind: type[T]) -> list[T]:
    if not isinstance(given, Iterable):
        raise TypeError(
            f"`{name}` should be a collection of {kind.__name__} objects, not {given!r}"
        )
    several = list(given)
    for each in several:
        if not isinstance(each, kind):
            raise TypeError(f"`{name}` should be {kind.__name__} objects, not {each!r}")
    return several


def _check_filter(given: object) -> None:
    if not isinstance(given, AclBindingFilter):
        raise TypeError(f"a filter should be an AclBindingFilter, not {given!r}")
    if given.is_unknown:
        raise IllegalArgumentError(f"a filter with an UNKNOWN part matches nothing: {given}")


def _oldest(pattern_types: Iterable[PatternType]) -> int:
    said_by_all = (PatternType.LITERAL, PatternType.ANY)
    return 0 if all(each in said_by_all for each in pattern_types) else _PATTERNS_FROM


def _pattern_type(acl_filter: AclBindingFilter, version: int) -> PatternType:
    """The pattern type to send: where all patterns are literal, ANY is LITERAL."""
    return PatternType.LITERAL if version < _PATTERNS_FROM else acl_filter.pattern.pattern_type


def _pattern(resource_type: int, name: str, pattern_type: int) -> ResourcePattern:
    kind = _known(PatternType, pattern_type, PatternType.ANY, PatternType.MATCH)
    return ResourcePattern(_known(ResourceType, resource_type, ResourceType.ANY), name, kind)


def _known(kind: type[E], code: int, *of_filters: E) -> E:
    """Return the member of a code in a response; UNKNOWN if the code is newer than this client."""
    try:
        member = kind(code)
    except ValueError:
        return kind(0)
    return kind(0) if member in of_filters else member


def _creation(acl: AclBinding) -> AclCreation:
    return AclCreation(
        resource_type=acl.pattern.resource_type,
        resource_name=acl.pattern.name,
        resource_pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _label(acl: AclBinding) -> str:
    return f"ACL {acl}"


def _label_of_filter(acl_filter: AclBindingFilter) -> str:
    return f"ACL filter {acl_filter}"
