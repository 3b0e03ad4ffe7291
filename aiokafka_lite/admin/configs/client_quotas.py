"""Describes and alters the quotas of users, client ids and addresses.

Source: DescribeClientQuotasRequest.json v0-v1, AlterClientQuotasRequest.json v0-v1, KIP-546,
KIP-612 (addresses).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from aiokafka_lite._arguments import flag, wire_string
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_errors import only_controller_errors
from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.cluster.retry import ANY
from aiokafka_lite.errors import IllegalArgumentError
from aiokafka_lite.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from aiokafka_lite.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)

__all__ = [
    "ClientQuotaEntity",
    "ClientQuotaFilterComponent",
    "ClientQuotaMatch",
    "alter_client_quotas",
    "describe_client_quotas",
]

_FEATURE: Final = "Administering client quotas"


@dataclass(frozen=True, slots=True)
class ClientQuotaEntity:
    """The entity of a quota: a user, a client id, both together, or an address.

        ClientQuotaEntity({"user": "alice", "client-id": None})

    Args:
        entries: Names by type: "user", "client-id" or "ip". None is the default: every entity of
            the type without a quota of its own.

    Raises:
        TypeError: Not a mapping of strings.
        IllegalArgumentError: There is no entry.
    """

    entries: Mapping[str, str | None]

    def __post_init__(self) -> None:
        given: object = self.entries
        if not isinstance(given, Mapping):
            raise TypeError(f"`entries` should be a mapping such as {{'user': 'a'}}, not {given!r}")
        if not given:
            raise IllegalArgumentError("`entries` is empty")
        for kind, name in given.items():
            wire_string("entity type", kind)
            if name is not None:
                wire_string(f"name of the {kind}", name)
        object.__setattr__(self, "entries", MappingProxyType(dict(given)))

    def __hash__(self) -> int:
        return hash(frozenset(self.entries.items()))

    def __repr__(self) -> str:
        return f"ClientQuotaEntity({dict(self.entries)!r})"

    def __reduce__(self) -> tuple[type[ClientQuotaEntity], tuple[dict[str, str | None]]]:
        return ClientQuotaEntity, (dict(self.entries),)

    def __str__(self) -> str:
        parts = (
            f"default {kind}" if name is None else f"{kind} {name!r}"
            for kind, name in self.entries.items()
        )
        return ", ".join(parts)


class ClientQuotaMatch(enum.IntEnum):
    """How a filter matches the names of a type; the values are Kafka's."""

    EXACT = 0
    """The filter's name."""
    DEFAULT = 1
    """The default of the type."""
    SPECIFIED = 2
    """Every name, and the default."""


@dataclass(frozen=True, slots=True)
class ClientQuotaFilterComponent:
    """Matches one type of the entities: `of_entity("user", "alice")`, `of_entity_type("ip")`.

    Args:
        entity_type: "user", "client-id" or "ip".
        match_type: How names match.
        match: The name for EXACT, otherwise None.

    Raises:
        TypeError: An argument has the wrong type.
        IllegalArgumentError: `match` and `match_type` contradict each other.
    """

    entity_type: str
    match_type: ClientQuotaMatch
    match: str | None = None

    def __post_init__(self) -> None:
        wire_string("entity_type", self.entity_type)
        if not isinstance(self.match_type, ClientQuotaMatch):
            raise TypeError(f"`match_type` should be a ClientQuotaMatch, not {self.match_type!r}")
        if self.match is not None:
            wire_string("match", self.match)
        if (self.match is not None) != (self.match_type is ClientQuotaMatch.EXACT):
            raise IllegalArgumentError("`match` is a name with EXACT, and None otherwise")

    @classmethod
    def of_entity(cls, entity_type: str, name: str) -> ClientQuotaFilterComponent:
        """Match the entity of a name."""
        return cls(entity_type, ClientQuotaMatch.EXACT, name)

    @classmethod
    def of_default_entity(cls, entity_type: str) -> ClientQuotaFilterComponent:
        """Match the default of a type."""
        return cls(entity_type, ClientQuotaMatch.DEFAULT)

    @classmethod
    def of_entity_type(cls, entity_type: str) -> ClientQuotaFilterComponent:
        """Match every entity of a type, and its default."""
        return cls(entity_type, ClientQuotaMatch.SPECIFIED)


async def describe_client_quotas(
    dispatcher: Dispatcher,
    components: Iterable[ClientQuotaFilterComponent],
    timeout_ms: float | None,
    *,
    strict: bool,
) -> dict[ClientQuotaEntity, dict[str, float]]:
    """See `AIOKafkaAdminClient.describe_client_quotas`."""
    deadline = dispatcher.deadline(timeout_ms)
    flag("strict", strict)
    answer = await dispatcher.ask(
        DescribeClientQuotasRequest(components=_components(components), strict=strict),
        ANY,
        deadline,
        feature=_FEATURE,
    )
    return {
        ClientQuotaEntity({part.entity_type: part.entity_name for part in each.entity}): {
            quota.key: quota.value for quota in each.values
        }
        for each in answer.entries or ()
        if each.entity
    }


async def alter_client_quotas(
    dispatcher: Dispatcher,
    alterations: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
    timeout_ms: float | None,
    *,
    validate_only: bool,
) -> Results[ClientQuotaEntity, None]:
    """See `AIOKafkaAdminClient.alter_client_quotas`."""
    deadline = dispatcher.deadline(timeout_ms)
    flag("validate_only", validate_only)
    wanted = _alterations(alterations)
    outcomes: Outcomes[ClientQuotaEntity, None] = Outcomes(
        wanted, lambda entity: f"quotas of {entity}", retriable=only_controller_errors(False)
    )

    def build(version: int, pending: list[ClientQuotaEntity]) -> AlterClientQuotasRequest:
        return AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequestEntryData(
                    [EntityData(kind, name) for kind, name in entity.entries.items()],
                    [
                        OpData(key, 0.0, True) if value is None else OpData(key, value)
                        for key, value in wanted[entity].items()
                    ],
                )
                for entity in pending
            ],
            validate_only=validate_only,
        )

    def read(
        response: AlterClientQuotasResponse, outcomes: Outcomes[ClientQuotaEntity, None]
    ) -> None:
        for each in response.entries:
            if not each.entity:
                continue
            entity = ClientQuotaEntity({part.entity_type: part.entity_name for part in each.entity})
            if not outcomes.on_code(entity, each.error_code, each.error_message):
                outcomes.on_value(entity, None)

    return await dispatcher.settle(
        outcomes, AlterClientQuotasRequest, build, read, ANY, deadline, feature=_FEATURE
    )


def _components(given: object) -> list[ComponentData]:
    if not isinstance(given, Iterable):
        raise TypeError(f"`components` should be a collection of components, not {given!r}")
    components: dict[str, ComponentData] = {}
    for each in given:
        if not isinstance(each, ClientQuotaFilterComponent):
            raise TypeError(f"components should be ClientQuotaFilterComponent, not {each!r}")
        if each.entity_type in components:
            raise IllegalArgumentError(f"entity type {each.entity_type!r} is in the filter twice")
        components[each.entity_type] = ComponentData(each.entity_type, each.match_type, each.match)
    return list(components.values())


def _alterations(given: object) -> dict[ClientQuotaEntity, dict[str, float | None]]:
    if not isinstance(given, Mapping):
        raise TypeError(f"`alterations` should be a mapping of entities to quotas, not {given!r}")
    wanted: dict[ClientQuotaEntity, dict[str, float | None]] = {}
    for entity, quotas in given.items():
        if not isinstance(entity, ClientQuotaEntity):
            raise TypeError(f"an entity should be a ClientQuotaEntity, not {entity!r}")
        if not isinstance(quotas, Mapping):
            raise TypeError(f"quotas of {entity} should be a mapping, not {quotas!r}")
        wanted[entity] = {
            wire_string("quota", key): _value(entity, key, value) for key, value in quotas.items()
        }
        if not quotas:
            raise IllegalArgumentError(f"quotas of {entity}: there is nothing to alter")
    return wanted


def _value(entity: ClientQuotaEntity, key: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{key} of {entity} should be a number or None, not {value!r}")
    if not (math.isfinite(value) and value > 0):
        raise IllegalArgumentError(f"{key} of {entity} should be above 0, not {value}")
    return float(value)
