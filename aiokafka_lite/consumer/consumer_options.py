"""What a consumer can be told: aiokafka's arguments and ours, checked once, in one place.

Names and defaults are aiokafka 0.14's. Ours on top, under Kafka's names: `buffer_memory`
(KIP-81), `interceptors`, `allow_auto_create_topics`, `group_protocol`,
`group_remote_assignor` (KIP-848), `default_api_timeout_ms`, and those of connections and
pauses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from aiokafka_lite.consumer.consumer_interceptors import Interceptors
from aiokafka_lite.consumer.partitions.reset_policy import OffsetReset as OffsetReset
from aiokafka_lite.consumer.partitions.reset_policy import ResetPolicy
from aiokafka_lite.group.membership import MembershipOptions

# Takes the bytes as they were read, or None for a null, and returns what the application wants. The
# type does not say so, since `json.loads` is what most write, who have no nulls.
Deserializer: TypeAlias = Callable[[Any], Any]

RESPONSE_LIMIT: Final = 4 * 1024 * 1024
"""Most bytes asked of a broker in one response. A larger one leaves the cache and its buffer is not
reused: 50 MB cost half as much again a record and four times the memory. `fetch_max_bytes` lowers
it; a single larger batch is still delivered (KIP-74)."""

DEFAULT_BUFFER_MEMORY: Final = 12 * 1024 * 1024
"""One response being consumed, one waiting, one arriving."""


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
        request_timeout: Deadline of each request.
        retry_backoff: First pause after a failure; grows from there (KIP-580).
        quiet_partition_wait: While some partitions of a broker still have buffered records, how
            long the empty ones may wait to be asked for again (`consumer_timeout_ms`).
        max_poll_records: Most records of one getmany(), or None.
        buffer_memory: Bytes of responses that may be buffered or asked for, all brokers together.
        enable_auto_commit: Whether what the application was given is committed unasked (in a
            group).
        auto_commit_interval: Between two such commits.
        interceptors: See what is handed out and committed; None without any.
        api_timeout: Deadline of each call that asks brokers something.
        retry_backoff_max: What the pauses grow to.
    """

    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    fetch_max_wait: float
    fetch_max_bytes: int
    fetch_min_bytes: int
    max_partition_fetch_bytes: int
    request_timeout: float
    retry_backoff: float
    auto_offset_reset: ResetPolicy
    check_crcs: bool
    quiet_partition_wait: float
    max_poll_records: int | None
    exclude_internal_topics: bool
    isolation_level: IsolationLevel
    client_rack: str
    buffer_memory: int
    enable_auto_commit: bool = True
    auto_commit_interval: float = 5.0
    interceptors: Interceptors | None = None
    api_timeout: float = 40.0
    retry_backoff_max: float = 1.0

    @property
    def deserializes(self) -> bool:
        """Whether decoding runs code of the application."""
        return (
            self.key_deserializer is not None
            or self.value_deserializer is not None
            or self.interceptors is not None
        )

    @property
    def response_bytes(self) -> int:
        """Most bytes to ask of a broker in one response."""
        return min(self.fetch_max_bytes, RESPONSE_LIMIT, max(self.buffer_memory // 2, 1))


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """What makes a consumer a member of a group.

    Attributes:
        membership: Of either protocol.
        modern: Whether the broker assigns (KIP-848, `group_protocol="consumer"`).
        strategy: Classes of assignors, the preferred one first; of the classic protocol.
    """

    membership: MembershipOptions
    modern: bool
    strategy: tuple[Any, ...]  # an application's assignor need not have our base class


def isolation(level: str) -> IsolationLevel:
    """The level of `isolation_level`.

    Raises:
        ValueError: In aiokafka's words.
    """
    if level == "read_uncommitted":
        return IsolationLevel.READ_UNCOMMITTED
    if level == "read_committed":
        return IsolationLevel.READ_COMMITTED
    raise ValueError(f"Incorrect isolation level {level}")


def poll_records(value: object) -> int | None:
    """The limit of `max_poll_records`.

    Raises:
        ValueError: In aiokafka's words.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("`max_poll_records` should be positive Integer")
    return value
