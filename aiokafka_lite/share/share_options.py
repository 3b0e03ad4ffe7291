"""The share consumer's options, checked once, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka_lite._arguments import (
    check_callable,
    flag,
    milliseconds,
    refuse_unknown,
    size,
    wire_string,
)
from aiokafka_lite._backoff import Backoff
from aiokafka_lite.cluster.log_name import LogName
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.group.membership import MembershipOptions
from aiokafka_lite.reading.record_interceptors import Interceptors, checked
from aiokafka_lite.share.acquired_records import Decoding, Deserializer

__all__ = ["ShareOptions", "refuse_options", "share_options"]

LEAST_BACKOFF: Final = 0.01
"""Minimum seconds between two attempts to join, however small the configured backoff."""

_BY_GROUP: Final = "set the group's configuration `{}` instead, with the admin client"
_REFUSED: Final = {
    "auto_offset_reset": _BY_GROUP.format("share.auto.offset.reset"),
    "isolation_level": _BY_GROUP.format("share.isolation.level"),
    "session_timeout_ms": _BY_GROUP.format("share.session.timeout.ms"),
    "heartbeat_interval_ms": _BY_GROUP.format("share.heartbeat.interval.ms"),
    "enable_auto_commit": "share groups commit no offsets: acknowledge records instead",
    "auto_commit_interval_ms": "share groups commit no offsets: acknowledge records instead",
    "group_instance_id": "share groups have no static members",
    "group_protocol": "share groups have their own protocol",
    "group_remote_assignor": "the broker alone chooses the assignor of a share group",
    "partition_assignment_strategy": "the broker alone assigns the partitions of a share group",
    "rebalance_timeout_ms": "members of a share group revoke nothing in a rebalance",
    "consumer_timeout_ms": "fetches are sent only while a read waits",
    "max_partition_fetch_bytes": "only `fetch_max_bytes` limits a share fetch",
    "exclude_internal_topics": "share groups do not subscribe by pattern",
    "loop": "create the consumer in its event loop",
    "api_version": "the client negotiates versions",
}


@dataclass(frozen=True, slots=True)
class ShareOptions:
    """The share consumer's own options, checked. Durations are seconds, sizes bytes.

    Attributes:
        group_id: The group's name.
        max_poll_records: Records to acquire at once.
        record_limit: True if a fetch acquires no more than that (KIP-1206).
        implicit: True if the next read accepts the delivered records.
        decoding: How to decode records.
        membership: Options of the membership.
        interceptors: See records before the application does, or None.
        log_name: The client id and the group, as every log line names this consumer.
    """

    group_id: str
    max_poll_records: int
    record_limit: bool
    implicit: bool
    decoding: Decoding
    interceptors: Interceptors | None
    membership: MembershipOptions
    fetch_max_wait: float
    fetch_min_bytes: int
    fetch_max_bytes: int
    request_timeout: float
    api_timeout: float
    retry_backoff: Backoff
    log_name: str


def share_options(
    *,
    client_id: str,
    group_id: object,
    max_poll_records: int,
    acquire_mode: object,
    acknowledgement_mode: object,
    on_undecodable: object,
    key_deserializer: Deserializer | None,
    value_deserializer: Deserializer | None,
    check_crcs: bool,
    interceptors: object,
    client_rack: str | None,
    fetch_max_wait_ms: float,
    fetch_min_bytes: int,
    fetch_max_bytes: int,
    max_poll_interval_ms: float,
    request_timeout_ms: float,
    default_api_timeout_ms: float | None,
    retry_backoff_ms: float,
    retry_backoff_max_ms: float,
) -> ShareOptions:
    """Check the arguments of `AIOKafkaShareConsumer`.

    Raises:
        TypeError, ValueError: An argument is invalid; the message names it.
    """
    check_callable("key_deserializer", key_deserializer)
    check_callable("value_deserializer", value_deserializer)
    if group_id is None:
        raise KafkaConfigurationError("`group_id` is required: it names the share group")
    group = wire_string("group_id", group_id)
    if not group:
        raise KafkaConfigurationError("`group_id` should not be empty")
    implicit = _choice("acknowledgement_mode", acknowledgement_mode, "implicit", "explicit")
    name = client_id or "share consumer"
    log_name = LogName(f"{name} (share group {group})", client_id=name, group=group)
    request_timeout = milliseconds("request_timeout_ms", request_timeout_ms, least=1)
    api_timeout = request_timeout
    if default_api_timeout_ms is not None:
        api_timeout = milliseconds("default_api_timeout_ms", default_api_timeout_ms, least=1)
    first = milliseconds("retry_backoff_ms", retry_backoff_ms)
    last = milliseconds("retry_backoff_max_ms", retry_backoff_max_ms)
    backoff = Backoff(max(first, LEAST_BACKOFF), max(last, LEAST_BACKOFF))
    rack = wire_string("client_rack", "" if client_rack is None else client_rack)
    undecodable = _choice("on_undecodable", on_undecodable, "reject", "release", "raise")
    return ShareOptions(
        group_id=group,
        max_poll_records=size("max_poll_records", max_poll_records, least=1),
        record_limit=_choice("acquire_mode", acquire_mode, "record_limit", "batch_optimized")
        == "record_limit",
        implicit=implicit == "implicit",
        decoding=Decoding(
            key_deserializer,
            value_deserializer,
            flag("check_crcs", check_crcs),
            undecodable,
            log_name,
            "the consumer acknowledges records itself: acknowledgement_mode is 'implicit'"
            if implicit == "implicit"
            else None,
        ),
        interceptors=checked(interceptors, log_name),
        membership=MembershipOptions(
            group_id=group,
            max_poll_interval=milliseconds("max_poll_interval_ms", max_poll_interval_ms, least=1),
            request_timeout=request_timeout,
            retry_backoff=backoff,
            client_rack=rack or None,
            client_id=client_id or "client",
        ),
        fetch_max_wait=milliseconds("fetch_max_wait_ms", fetch_max_wait_ms),
        fetch_min_bytes=size("fetch_min_bytes", fetch_min_bytes),
        fetch_max_bytes=size("fetch_max_bytes", fetch_max_bytes, least=1),
        request_timeout=request_timeout,
        api_timeout=api_timeout,
        retry_backoff=backoff,
        log_name=log_name,
    )


def _choice(name: str, value: object, *choices: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"`{name}` should be a str, not {value!r}")
    if value not in choices:
        options = " or ".join([", ".join(map(repr, choices[:-1])), repr(choices[-1])])
        raise KafkaConfigurationError(f"`{name}` should be {options}, not {value!r}")
    return value


def refuse_options(given: Mapping[str, object], known: Mapping[str, object], face: str) -> None:
    """Refuse options of `AIOKafkaConsumer` that a share group cannot have, and unknown ones.

    Raises:
        KafkaConfigurationError: A share group cannot have the option.
        TypeError: The option is unknown.
    """
    for name in given:
        why = _REFUSED.get(name.replace(".", "_"))
        if why is not None:
            raise KafkaConfigurationError(f"`{name}` is not an option of {face}: {why}")
    refuse_unknown(given, known, face)
