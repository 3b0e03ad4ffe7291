"""Producer options, checked once: public names and milliseconds in, seconds inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aiokafka_lite._arguments import (
    INT32,
    INT64,
    check_callable,
    flag,
    is_int,
    milliseconds,
    size,
    wire_string,
)
from aiokafka_lite._backoff import Backoff
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.producer.idempotence import IN_FLIGHT_LIMIT
from aiokafka_lite.record.compression import Compression, check_level

__all__ = ["ProducerOptions"]

RETRY_BACKOFF_MIN: Final = 0.001
"""Seconds. A pause of zero never grows, so a lasting error would be retried without a pause."""

Partitioner = Callable[[bytes | None, list[int], list[int]], int]


class ProducerOptions:
    """Options of a producer. Durations are seconds, sizes are bytes.

    The attributes are written out, because a dataclass of this size is slow to import.

    Raises:
        KafkaConfigurationError: (a ValueError) A value is out of range, or two values contradict
            each other.
        TypeError: A value has the wrong type.
    """

    acks: Final[int]
    """0: none; 1: the leader's; -1: those of all in-sync replicas."""
    idempotent: Final[bool]
    idempotence_required: Final[bool]
    """True if idempotence was requested explicitly: nothing is sent without a producer id."""
    linger: Final[float]
    max_batch_size: Final[int]
    max_request_size: Final[int]
    request_timeout: Final[float]
    delivery_timeout: Final[float]
    max_block: Final[float]
    buffer_memory: Final[int]
    max_in_flight: Final[int]
    """Requests in flight per broker."""
    retry_backoff: Final[Backoff]
    compression: Final[Compression]
    compression_level: Final[int | None]
    key_serializer: Callable[[Any], Any] | None
    value_serializer: Callable[[Any], Any] | None
    partitioner: Final[Partitioner | None]
    """None: murmur2 of the key, or sticky without a key."""
    ignore_keys: Final[bool]
    adaptive: Final[bool]
    """Prefer partitions with fewer waiting batches."""
    availability_timeout: Final[float]
    """How long a broker may be unresponsive before its partitions are avoided; 0: forever."""
    client_rack: Final[str | None]
    rack: Final[str | None]
    """Records without a key go to leaders in this rack; None: in any."""
    transactional_id: Final[str | None]

    def __init__(
        self,
        *,
        acks: object,
        enable_idempotence: bool | None,
        linger_ms: float,
        max_batch_size: int,
        max_request_size: int,
        request_timeout_ms: float,
        delivery_timeout_ms: float,
        max_block_ms: float,
        buffer_memory: int,
        max_in_flight_requests_per_connection: int,
        retry_backoff_ms: float,
        retry_backoff_max_ms: float = 1000,
        compression_type: str | None,
        compression_level: int | None,
        key_serializer: Callable[[Any], Any] | None,
        value_serializer: Callable[[Any], Any] | None,
        partitioner: Partitioner | None,
        partitioner_ignore_keys: bool,
        partitioner_adaptive_partitioning_enable: bool,
        partitioner_availability_timeout_ms: float,
        partitioner_rack_aware: bool,
        client_rack: str | None,
        transactional_id: str | None = None,
    ) -> None:
        """Create options from the public arguments.

        With `enable_idempotence=None` (the default) idempotence is on unless another option
        contradicts it.
        """
        level = _acks(acks)
        if transactional_id is not None:
            wire_string("transactional_id", transactional_id)
            if not transactional_id:
                raise KafkaConfigurationError("`transactional_id` should not be empty")
            if enable_idempotence is False:
                raise KafkaConfigurationError(
                    "`transactional_id` requires idempotence, but enable_idempotence=False"
                )
            enable_idempotence = True
        in_flight = size(
            "max_in_flight_requests_per_connection", max_in_flight_requests_per_connection, least=1
        )
        linger = milliseconds("linger_ms", linger_ms)
        request_timeout = milliseconds("request_timeout_ms", request_timeout_ms, least=1)
        delivery_timeout = milliseconds(
            "delivery_timeout_ms", delivery_timeout_ms, least=1, most=2 * INT32
        )
        if delivery_timeout < linger + request_timeout:
            raise KafkaConfigurationError(
                f"delivery_timeout_ms ({delivery_timeout_ms}) must be at least linger_ms "
                f"({linger_ms}) + request_timeout_ms ({request_timeout_ms})"
            )
        batch_size = size("max_batch_size", max_batch_size, least=1)
        request_size = size("max_request_size", max_request_size, least=1)
        memory = size("buffer_memory", buffer_memory, least=1, most=INT64)
        batch_size = min(batch_size, request_size)
        if memory < batch_size:
            raise KafkaConfigurationError(
                f"buffer_memory ({memory}) must hold at least one batch of max_batch_size "
                f"({batch_size})"
            )
        compression = _compression(compression_type)
        if compression_level is not None and not is_int(compression_level):
            raise TypeError(f"`compression_level` should be an int, not {compression_level!r}")
        check_level(compression, compression_level)
        for name, serializer in (
            ("key_serializer", key_serializer),
            ("value_serializer", value_serializer),
            ("partitioner", partitioner),
        ):
            check_callable(name, serializer)
        retry_backoff = milliseconds("retry_backoff_ms", retry_backoff_ms)
        retry_backoff_max = milliseconds("retry_backoff_max_ms", retry_backoff_max_ms)
        self.acks = level
        self.idempotent = _idempotent(enable_idempotence, level, in_flight)
        self.idempotence_required = bool(enable_idempotence)
        self.linger = linger
        self.max_batch_size = batch_size
        self.max_request_size = request_size
        self.request_timeout = request_timeout
        self.delivery_timeout = delivery_timeout
        self.max_block = milliseconds("max_block_ms", max_block_ms, most=INT64)
        self.buffer_memory = memory
        self.max_in_flight = in_flight
        self.retry_backoff = Backoff(
            max(retry_backoff, RETRY_BACKOFF_MIN), max(retry_backoff_max, RETRY_BACKOFF_MIN)
        )
        self.compression = compression
        self.compression_level = compression_level
        self.key_serializer = key_serializer
        self.value_serializer = value_serializer
        self.partitioner = partitioner
        self.ignore_keys = flag("partitioner_ignore_keys", partitioner_ignore_keys)
        self.adaptive = flag(
            "partitioner_adaptive_partitioning_enable",
            partitioner_adaptive_partitioning_enable,
        )
        self.availability_timeout = milliseconds(
            "partitioner_availability_timeout_ms", partitioner_availability_timeout_ms
        )
        self.client_rack = client_rack
        self.rack = _rack(partitioner_rack_aware, client_rack, partitioner)
        self.transactional_id = transactional_id


def _acks(acks: object) -> int:
    if isinstance(acks, str) and acks == "all":
        return -1
    if isinstance(acks, int) and not isinstance(acks, bool) and acks in (0, 1, -1):
        return acks
    raise KafkaConfigurationError(f"`acks` should be 0, 1, -1 or 'all', not {acks!r}")


def _idempotent(wanted: bool | None, acks: int, in_flight: int) -> bool:
    """Decide as Java does: a contradiction turns the default off, but fails an explicit True."""
    if wanted is not None:
        flag("enable_idempotence", wanted)
    if wanted is False:
        return False
    against = ""
    if acks != -1:
        against = f"acks={acks} not supported if enable_idempotence=True"
    elif in_flight > IN_FLIGHT_LIMIT:
        against = (
            f"max_in_flight_requests_per_connection={in_flight} not supported if "
            f"enable_idempotence=True: brokers remember {IN_FLIGHT_LIMIT} batches"
        )
    if against and wanted:
        raise KafkaConfigurationError(against)
    return not against


def _rack(aware: bool, rack: str | None, partitioner: Partitioner | None) -> str | None:
    if rack is not None:
        wire_string("client_rack", rack)
    if not flag("partitioner_rack_aware", aware):
        return None
    if not rack:
        raise KafkaConfigurationError("partitioner_rack_aware=True needs a `client_rack`")
    return rack if partitioner is None else None  # as in Java


def _compression(name: str | None) -> Compression:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"`compression_type` should be a str or None, not {name!r}")
    return Compression.named(name)
