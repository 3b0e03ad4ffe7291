"""The consumer's options, checked once, in one place.

Names and defaults are those of aiokafka 0.14. Not in aiokafka, under Kafka's names:
`buffer_memory` (KIP-81), `interceptors`, `allow_auto_create_topics`, `group_protocol`,
`group_remote_assignor` (KIP-848), `default_api_timeout_ms`, and the options for connections and
backoff.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aiokafka_lite.consumer.partitions.reset_policy import OffsetReset as OffsetReset
from aiokafka_lite.consumer.partitions.reset_policy import ResetPolicy
from aiokafka_lite.reading.record_interceptors import Interceptors

if TYPE_CHECKING:  # membership is imported only with a group
    from aiokafka_lite.group.membership import MembershipOptions

# Takes the raw bytes, or None for a null, and returns any object. The type is looser, because most
# applications pass `json.loads` and have no nulls.
Deserializer: TypeAlias = Callable[[Any], Any]

RESPONSE_LIMIT: Final = 4 * 1024 * 1024
"""Maximum bytes requested from a broker in one response. A larger response does not fit the cache,
and its buffer is not reused: with 50 MB, a record costs 1.5 times as much time and four times the
memory. `fetch_max_bytes` lowers the limit; a single larger batch is still delivered (KIP-74)."""

DEFAULT_BUFFER_MEMORY: Final = 12 * 1024 * 1024
"""Room for one response being consumed, one waiting, one arriving."""


class IsolationLevel(Enum):
    """Visibility of records of open or aborted transactions; values as on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, eq=False, slots=True)
class ConsumerOptions:
    """The consumer's own options, checked. Durations are seconds, sizes bytes.

    Attributes:
        key_deserializer: Applied to each key, or None to deliver bytes.
        value_deserializer: Applied to each value, or None to deliver bytes.
        fetch_max_wait: How long a broker may hold a fetch that finds less than `fetch_min_bytes`.
        fetch_max_bytes: Limit of one response; fetches request `response_bytes`.
        max_partition_fetch_bytes: Limit of one partition in one response.
        request_timeout: Deadline of each request.
        retry_backoff: First pause after a failure; grows from there (KIP-580).
        quiet_partition_wait: While some partitions of a broker still have buffered records, how
            long the empty ones may wait before they are fetched again (`consumer_timeout_ms`).
        max_poll_records: Maximum records of one getmany(), or None.
        buffer_memory: Maximum bytes of responses buffered or requested, for all brokers together.
        enable_auto_commit: True to commit the offsets of delivered records automatically (in a
            group).
        auto_commit_interval: Time between two such commits.
        interceptors: The interceptors of reads and commits; None without any.
        api_timeout: Deadline of each call that sends requests.
        retry_backoff_max: Upper limit of the pauses.
        log_name: The client id and the group, as every log line names this consumer.
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
    log_name: str = "consumer"

    @property
    def deserializes(self) -> bool:
        """True if decoding runs code of the application."""
        return (
            self.key_deserializer is not None
            or self.value_deserializer is not None
            or self.interceptors is not None
        )

    @property
    def at_delivery(self) -> bool:
        """True if no interceptor may see a record ahead of its delivery."""
        return self.interceptors is not None and self.interceptors.at_delivery

    @property
    def response_bytes(self) -> int:
        """Maximum bytes to request from a broker in one response."""
        return min(self.fetch_max_bytes, RESPONSE_LIMIT, max(self.buffer_memory // 2, 1))


@dataclass(frozen=True, eq=False, slots=True)
class GroupOptions:
    """The options of a consumer in a group.

    Attributes:
        membership: Options of either protocol.
        modern: True if the broker assigns (KIP-848, `group_protocol="consumer"`).
        strategy: Assignor classes of the classic protocol, the preferred one first.
    """

    membership: MembershipOptions
    modern: bool
    strategy: tuple[Any, ...]  # an application's assignor need not have this package's base class


def isolation(level: str) -> IsolationLevel:
    """Parse `isolation_level`.

    Raises:
        ValueError: The level is unknown; the message is aiokafka's.
    """
    if level == "read_uncommitted":
        return IsolationLevel.READ_UNCOMMITTED
    if level == "read_committed":
        return IsolationLevel.READ_COMMITTED
    raise ValueError(f"Incorrect isolation level {level}")


def poll_records(value: object) -> int | None:
    """Check `max_poll_records`.

    Raises:
        ValueError: The value is not a positive integer or None; the message is aiokafka's.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("`max_poll_records` should be positive Integer")
    return value
