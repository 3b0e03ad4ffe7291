"""What a consumer can be told: aiokafka's arguments and ours, checked once, in one place.

Names and defaults are aiokafka 0.14's. Ours on top: ``buffer_memory`` (KIP-81) and
``allow_auto_create_topics``. Arguments of things that are not built yet (groups) are accepted at
their defaults and refused by name otherwise; a misspelt one is refused with its nearest match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from aiokafka_lite.errors import KafkaConfigurationError

# Takes the bytes as they were read (None for a null), returns what the application wants.
Deserializer: TypeAlias = Callable[[bytes | None], Any]

RESPONSE_LIMIT: Final = 4 * 1024 * 1024
"""Most bytes asked of a broker in one response. A larger one leaves the cache and its buffer is not
reused: 50 MB cost half as much again a record and four times the memory. ``fetch_max_bytes`` lowers
it; a single larger batch is still delivered (KIP-74)."""

DEFAULT_BUFFER_MEMORY: Final = 12 * 1024 * 1024
"""One response being consumed, one waiting, one arriving."""


class OffsetReset(Enum):
    """Where to start when there is no position, or it is out of range."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class IsolationLevel(Enum):
    """Whether records of transactions that are open or aborted are shown; values as on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The consumer's own options, checked. Durations are seconds, sizes bytes.

    Attributes:
        key_deserializer: Applied to each key, or None to hand out bytes.
        value_deserializer: Applied to each value, or None to hand out bytes.
        fetch_max_wait: How long a broker may hold a fetch that finds less than `fetch_min_bytes`.
        fetch_max_bytes: Of one response; `response_bytes` is what is asked for.
        max_partition_fetch_bytes: Of one partition in one response.
        request_timeout: Deadline of each request, and of each call that asks brokers something.
        retry_backoff: First pause after a failure; grows from there (KIP-580).
        quiet_partition_wait: While some partitions of a broker still have buffered records, how
            long the empty ones may wait to be asked for again (``consumer_timeout_ms``).
        max_poll_records: Most records of one getmany(), or None.
        buffer_memory: Bytes of responses that may be buffered or asked for, all brokers together.
    """

    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    fetch_max_wait: float
    fetch_max_bytes: int
    fetch_min_bytes: int
    max_partition_fetch_bytes: int
    request_timeout: float
    retry_backoff: float
    auto_offset_reset: OffsetReset
    check_crcs: bool
    quiet_partition_wait: float
    max_poll_records: int | None
    exclude_internal_topics: bool
    isolation_level: IsolationLevel
    client_rack: str
    buffer_memory: int

    @property
    def deserializes(self) -> bool:
        """Whether decoding runs code of the application."""
        return self.key_deserializer is not None or self.value_deserializer is not None

    @property
    def response_bytes(self) -> int:
        """Most bytes to ask of a broker in one response."""
        return min(self.fetch_max_bytes, RESPONSE_LIMIT, max(self.buffer_memory // 2, 1))


def offset_reset(policy: str) -> OffsetReset:
    """The policy of ``auto_offset_reset``.

    Raises:
        KafkaConfigurationError: none of earliest, latest, none.
    """
    try:
        return OffsetReset(policy)
    except ValueError:
        raise KafkaConfigurationError(
            f"`auto_offset_reset` should be 'earliest', 'latest' or 'none', not {policy!r}"
        ) from None


def isolation(level: str) -> IsolationLevel:
    """The level of ``isolation_level``.

    Raises:
        ValueError: in aiokafka's words.
    """
    if level == "read_uncommitted":
        return IsolationLevel.READ_UNCOMMITTED
    if level == "read_committed":
        return IsolationLevel.READ_COMMITTED
    raise ValueError(f"Incorrect isolation level {level}")


def poll_records(value: object) -> int | None:
    """The limit of ``max_poll_records``.

    Raises:
        ValueError: in aiokafka's words.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("`max_poll_records` should be positive Integer")
    return value


def refuse_groups(group_id: str | None, group_instance_id: str | None) -> None:
    """Refuse what needs a consumer group.

    Raises:
        KafkaConfigurationError: one of them is given (also a ValueError).
    """
    if group_id is not None or group_instance_id is not None:
        name = "group_id" if group_id is not None else "group_instance_id"
        raise KafkaConfigurationError(
            f"`{name}`: consumer groups are not there yet in this release; without a group, "
            "subscribe() reads all partitions of its topics and assign() those it is given"
        )
