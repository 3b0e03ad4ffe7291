"""Client quotas: the table, and the quota that applies to a client (KIP-13, KIP-546). No I/O."""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from aiokafka_lite.errors import InvalidRequestError, UnsupportedVersionError
from aiokafka_lite.testing.storage.journal import Journal

__all__ = [
    "CONSUMER_RATE",
    "PRODUCER_RATE",
    "REQUEST_PERCENTAGE",
    "Entity",
    "Limit",
    "QuotaFilter",
    "QuotaTable",
    "entity_of",
]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_RATE: Final = "producer_byte_rate"
CONSUMER_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
_CLIENT_KEYS: Final = {
    PRODUCER_RATE: int,
    CONSUMER_RATE: int,
    REQUEST_PERCENTAGE: float,
    "controller_mutation_rate": float,
}
_IP_KEYS: Final = {"connection_creation_rate": int}
_LARGEST: Final = {"connection_creation_rate": 2**31 - 1}
_ANY_LONG: Final = 2**63 - 1
_FRACTION: Final = 1e-6  # Kafka ignores smaller fractions
_JOURNAL_KIND: Final = "quota"

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name) of each part, sorted; the name None is the default for names without a quota."""


class Limit(NamedTuple):
    """The quota that applies to a client, and the clients that share it.

    Attributes:
        bound: Bytes per second, or percent of a thread's time.
        user: The user whose clients share it; "" for any user.
        client_id: The client id whose clients share it; "" for any client id.
    """

    bound: float
    user: str
    client_id: str


class QuotaFilter(NamedTuple):
    """A filter of entities.

    Attributes:
        exact: Parts that an entity must have, with these names (None: the default).
        present: Types of parts that it must have, with any name.
        strict: True if it must have no other parts.
    """

    exact: Mapping[str, str | None]
    present: frozenset[str]
    strict: bool

    def matches(self, entity: Entity) -> bool:
        parts = dict(entity)
        if self.strict and len(parts) != len(self.exact) + len(self.present):
            return False
        return self.present <= parts.keys() and all(
            kind in parts and parts[kind] == name for kind, name in self.exact.items()
        )

    def check(self) -> None:
        """Check that an entity could match.

        Raises:
            InvalidRequestError: The filter combines addresses with users or client ids.
            UnsupportedVersionError: A type is unknown.
        """
        kinds = {*self.exact, *self.present}
        for kind in kinds:
            if kind not in (USER, CLIENT_ID, IP):
                raise UnsupportedVersionError(f"Unsupported entity type {kind}")
        if IP in kinds and len(kinds) > 1:
            raise InvalidRequestError(
                "Invalid entity filter component combination. IP filter component should not be"
                " used with user or clientId filter component."
            )


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Return the entity with these parts, given in any order."""
    return tuple(sorted(dict(parts).items()))


class QuotaTable:
    """The quotas of a cluster.

    Args:
        journal: Stores the table across restarts.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal or Journal()
        self._quotas: dict[Entity, dict[str, float]] = {}
        for key, value in self._journal.entries(_JOURNAL_KIND):
            self._quotas[_from_key(key)] = dict(value)

    @property
    def is_empty(self) -> bool:
        return not self._quotas

    def alter(
        self,
        parts: Iterable[tuple[str, str | None]],
        changes: Mapping[str, float | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set the quotas of an entity, or remove them with None.

        Args:
            parts: (type, name) of each part; None is the default name.
            changes: New values by quota: bytes per second, or percent.
            validate_only: Only check.

        Raises:
            InvalidRequestError: The entity or a value is invalid; nothing was changed.
        """
        entity = entity_of(parts)
        keys = _keys_for(entity)
        for key, value in changes.items():
            if value is not None:
                _check_value(keys, key, value)
        if validate_only:
            return
        quotas = self._quotas.setdefault(entity, {})
        for key, value in changes.items():
            if value is None:
                quotas.pop(key, None)
            else:
                quotas[key] = value
        if not quotas:
            del self._quotas[entity]
        self._journal.note(_JOURNAL_KIND, _to_key(entity), dict(quotas) or None)

    def find(self, which: QuotaFilter) -> list[tuple[Entity, dict[str, float]]]:
        """Return the entities that a filter matches, with their quotas."""
        return [(entity, dict(q)) for entity, q in self._quotas.items() if which.matches(entity)]

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """Return the most specific quota that applies to a client; None for no limit."""
        for of_user in ((USER, user), (USER, None)):
            for of_client in ((CLIENT_ID, client_id), (CLIENT_ID, None)):
                bound = self._bound(key, of_client, of_user)
                if bound is not None:
                    return Limit(bound, user, client_id)
            bound = self._bound(key, of_user)
            if bound is not None:
                return Limit(bound, user, "")
        for of_client in ((CLIENT_ID, client_id), (CLIENT_ID, None)):
            bound = self._bound(key, of_client)
            if bound is not None:
                return Limit(bound, "", client_id)
        return None

    def _bound(self, key: str, *entity: tuple[str, str | None]) -> float | None:
        return self._quotas.get(entity, {}).get(key)


def _keys_for(entity: Entity) -> Mapping[str, type[int] | type[float]]:
    """Return the quotas that an entity can have, and their number types."""
    kinds = {kind for kind, _ in entity}
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequestError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequestError(f"Empty {kind} not supported")
    if not kinds:
        raise InvalidRequestError("Invalid empty client quota entity")
    if IP not in kinds:
        return _CLIENT_KEYS
    if len(kinds) > 1:
        raise InvalidRequestError(
            "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId"
        )
    return _IP_KEYS


def _check_value(keys: Mapping[str, type[int] | type[float]], key: str, value: float) -> None:
    if key not in keys:
        raise InvalidRequestError(f"Invalid configuration key {key}")
    if value <= 0:
        raise InvalidRequestError(f"Quota {key} must be greater than 0")
    if keys[key] is float:
        return
    if value > _LARGEST.get(key, _ANY_LONG):
        raise InvalidRequestError(f"Proposed value for {key} is too large.")
    if math.fmod(value, 1.0) > _FRACTION:
        raise InvalidRequestError(f"{key} cannot be a fractional value.")


def _to_key(entity: Entity) -> tuple[str | int, ...]:
    """Return the journal key of an entity, in which a number marks the default name: journal keys
    cannot contain None."""
    return tuple(value for kind, name in entity for value in (kind, 0 if name is None else name))


def _from_key(key: tuple[str | int, ...]) -> Entity:
    names = (None if name == 0 else str(name) for name in key[1::2])
    return tuple(zip((str(kind) for kind in key[::2]), names, strict=True))
