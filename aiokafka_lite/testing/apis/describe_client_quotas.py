"""DescribeClientQuotas, v0-v1: the quotas of the entities that a filter matches (KIP-546)."""

from typing import Final

from aiokafka_lite.errors import BrokerResponseError, InvalidRequestError
from aiokafka_lite.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.quotas import QuotaFilter
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.wording import wording

_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2


def handle(
    request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    try:
        context.check()
        context.authorize(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME)
        found = context.state.quotas.find(_filter(request.components, request.strict))
    except BrokerResponseError as error:
        return DescribeClientQuotasResponse(
            error_code=error.errno, error_message=wording(error), entries=None
        )
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            EntryData(
                entity=[EntityData(kind, name) for kind, name in entity],
                values=[ValueData(key, value) for key, value in quotas.items()],
            )
            for entity, quotas in found
        ],
    )


def _filter(components: list[ComponentData], strict: bool) -> QuotaFilter:
    exact: dict[str, str | None] = {}
    present: set[str] = set()
    for component in components:
        kind, match = component.entity_type, component.match
        if not kind:
            raise InvalidRequestError("Invalid empty entity type.")
        if kind in exact or kind in present:
            raise InvalidRequestError(
                f"Entity type {kind} cannot appear more than once in the filter."
            )
        if (component.match_type == _EXACT) == (match is None):
            raise InvalidRequestError(
                "a match name must be set for match type EXACT, and only for it"
            )
        if component.match_type in (_EXACT, _DEFAULT):
            exact[kind] = match
        elif component.match_type == _SPECIFIED:
            present.add(kind)
        else:
            raise InvalidRequestError(f"Unknown match type {component.match_type}")
    wanted = QuotaFilter(exact, frozenset(present), strict)
    wanted.check()
    return wanted
