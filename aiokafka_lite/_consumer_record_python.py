"""The pure-Python twin of ConsumerRecord: its specification, and the build without a compiler."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

# Clients are generic in the types of keys and values, too. Both default to Any (PEP 696), so that
# a client without type arguments, and without (de)serializers to infer them from, is checked as one
# of aiokafka.
if TYPE_CHECKING:
    from typing_extensions import TypeVar  # part of the type checkers; not installed at run time

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")


class _TakesAttributes:
    """A class with slots whose objects take further attributes, in a dict made for the first."""

    __slots__ = ("__dict__",)


@dataclass(slots=True)
class ConsumerRecord(_TakesAttributes, Generic[K, V]):
    """One record read from a partition; aiokafka's fields, compared by value, not hashable.

    An application may set further attributes, which are copied and pickled, but neither compared
    nor shown.

    Attributes:
        topic: Name of the topic it was read from.
        partition: Number of the partition it was read from.
        offset: Its place in that partition.
        timestamp: Milliseconds since the epoch; -1 when the record has none (message format v0).
        timestamp_type: 0 CreateTime (the producer's clock), 1 LogAppendTime (the broker's), -1
            when there is no timestamp.
        key: The key as the key deserializer returned it (bytes without one), or None.
        value: The value as the value deserializer returned it (bytes without one), or None.
        checksum: CRC-32 of the message in formats v0 and v1; None in v2, where the CRC is the
            batch's and not the record's.
        serialized_key_size: Bytes of the key before deserializing; -1 for None.
        serialized_value_size: Bytes of the value before deserializing; -1 for None.
        headers: (name, value) pairs in the order they were written; names may repeat and a value
            may be None.
        leader_epoch: Epoch of the leader that appended the batch, -1 when unknown (KIP-320). Not
            compared and not shown.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: K | None
    value: V | None
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int = field(default=-1, compare=False, repr=False, kw_only=True)
