"""The operations that ACLs allow, and the bit field in which brokers return them (KIP-430)."""

from __future__ import annotations

import enum
from typing import Final

__all__ = ["AclOperation", "authorized_operations"]

_NOT_ASKED: Final = -(2**31)


class AclOperation(enum.IntEnum):
    """An operation on a resource; the values are Kafka's."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


_GRANTABLE: Final = tuple(each for each in AclOperation if each > AclOperation.ALL)


def authorized_operations(bits: int) -> frozenset[AclOperation] | None:
    """Return the operations of a response's bit field; None if they were not requested.

    Bits of operations newer than this client are ignored.
    """
    if bits == _NOT_ASKED:
        return None
    return frozenset(each for each in _GRANTABLE if bits >> each & 1)
