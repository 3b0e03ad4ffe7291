"""Turns the arguments of `AIOKafkaConsumer` into checked options: one function for each kind.

Conflicting arguments are rejected as in Java. An argument counts as given when it differs from its
default, because aiokafka's signature contains the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from aiokafka_lite._arguments import INT64, check_callable, flag, milliseconds, size, wire_string
from aiokafka_lite._backoff import Backoff
from aiokafka_lite.cluster.log_name import LogName
from aiokafka_lite.consumer import consumer_options as check
from aiokafka_lite.consumer.consumer_options import ConsumerOptions, Deserializer, GroupOptions
from aiokafka_lite.consumer.partitions.reset_policy import reset_policy
from aiokafka_lite.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.reading.record_interceptors import checked as checked_interceptors

__all__ = [
    "DEFAULT_HEARTBEAT_MS",
    "DEFAULT_SESSION_MS",
    "DEFAULT_STRATEGY",
    "consumer_options",
    "group_options",
]

DEFAULT_STRATEGY: Final = (RoundRobinPartitionAssignor,)
DEFAULT_SESSION_MS: Final = 10000
DEFAULT_HEARTBEAT_MS: Final = 3000

LEAST_BACKOFF: Final = 0.01
"""Minimum seconds between two attempts to join, however small the configured backoff."""

_INSTANCE_ID: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # Java's rule, which is that of topics


def consumer_options(
    *,
    key_deserializer: Deserializer | None,
    value_deserializer: Deserializer | None,
    fetch_max_wait_ms: float,
    fetch_max_bytes: int,
    fetch_min_bytes: int,
    max_partition_fetch_bytes: int,
    request_timeout_ms: float,
    retry_backoff_ms: float,
    auto_offset_reset: str,
    enable_auto_commit: bool,
    auto_commit_interval_ms: float,
    check_crcs: bool,
    consumer_timeout_ms: float,
    max_poll_records: int | None,
    exclude_internal_topics: bool,
    isolation_level: str,
    client_rack: str | None,
    buffer_memory: int,
    interceptors: object = (),
    default_api_timeout_ms: float | None = None,
    retry_backoff_max_ms: float = 1000,
    client_id: str | None = None,
    group_id: str | None = None,
) -> ConsumerOptions:
    """Check the consumer's own options. `client_id` and `group_id` only name it in the log.

    Raises:
        TypeError, ValueError: An argument is invalid. The message names it, and is aiokafka's
            where aiokafka has one.
    """
    check_callable("key_deserializer", key_deserializer)
    check_callable("value_deserializer", value_deserializer)
    request_timeout = milliseconds("request_timeout_ms", request_timeout_ms, least=1)
    api_timeout = request_timeout
    if default_api_timeout_ms is not None:
        api_timeout = milliseconds("default_api_timeout_ms", default_api_timeout_ms, least=1)
    name = client_id or "consumer"
    text = name if group_id is None else f"{name} (group {group_id})"
    log_name = LogName(text, client_id=name, group=group_id)
    return ConsumerOptions(
        key_deserializer=key_deserializer,
        value_deserializer=value_deserializer,
        fetch_max_wait=milliseconds("fetch_max_wait_ms", fetch_max_wait_ms),
        fetch_max_bytes=size("fetch_max_bytes", fetch_max_bytes, least=1),
        fetch_min_bytes=size("fetch_min_bytes", fetch_min_bytes),
        max_partition_fetch_bytes=size(
            "max_partition_fetch_bytes", max_partition_fetch_bytes, least=1
        ),
        request_timeout=request_timeout,
        retry_backoff=milliseconds("retry_backoff_ms", retry_backoff_ms),
        auto_offset_reset=reset_policy(auto_offset_reset),
        check_crcs=flag("check_crcs", check_crcs),
        quiet_partition_wait=milliseconds("consumer_timeout_ms", consumer_timeout_ms),
        max_poll_records=check.poll_records(max_poll_records),
        exclude_internal_topics=flag("exclude_internal_topics", exclude_internal_topics),
        isolation_level=check.isolation(isolation_level),
        client_rack=wire_string("client_rack", "" if client_rack is None else client_rack),
        buffer_memory=size("buffer_memory", buffer_memory, least=1, most=INT64),
        enable_auto_commit=flag("enable_auto_commit", enable_auto_commit),
        auto_commit_interval=milliseconds("auto_commit_interval_ms", auto_commit_interval_ms),
        interceptors=checked_interceptors(interceptors, log_name),
        api_timeout=api_timeout,
        retry_backoff_max=milliseconds("retry_backoff_max_ms", retry_backoff_max_ms),
        log_name=log_name,
    )


def group_options(
    options: ConsumerOptions,
    *,
    group_id: str | None,
    group_instance_id: str | None,
    group_protocol: str,
    group_remote_assignor: str | None,
    # Any: an application's assignor need not subclass AbstractPartitionAssignor.
    partition_assignment_strategy: Sequence[Any],
    max_poll_interval_ms: float,
    rebalance_timeout_ms: float | None,
    session_timeout_ms: float,
    heartbeat_interval_ms: float,
) -> GroupOptions | None:
    """Check the options of the membership; None without a group.

    Args:
        options: The consumer's own, checked.

    The others are the arguments of `AIOKafkaConsumer`.

    Raises:
        TypeError, ValueError: An argument is invalid; the message names it.
    """
    session = milliseconds("session_timeout_ms", session_timeout_ms, least=1)
    heartbeat = milliseconds("heartbeat_interval_ms", heartbeat_interval_ms, least=1)
    poll_interval = milliseconds("max_poll_interval_ms", max_poll_interval_ms, least=1)
    rebalance = None
    if rebalance_timeout_ms is not None:
        rebalance = milliseconds("rebalance_timeout_ms", rebalance_timeout_ms, least=1)
    if not isinstance(partition_assignment_strategy, list | tuple):
        raise TypeError(
            "`partition_assignment_strategy` should be a list or tuple of assignors, "
            f"not {partition_assignment_strategy!r}"
        )
    if group_protocol not in ("classic", "consumer"):
        raise KafkaConfigurationError(
            f"`group_protocol` should be 'classic' or 'consumer', not {group_protocol!r}"
        )
    modern = group_protocol == "consumer"
    if group_id is None:
        for name, value in (
            ("group_instance_id", group_instance_id),
            ("group_remote_assignor", group_remote_assignor),
        ):
            if value is not None:
                raise KafkaConfigurationError(f"`{name}` requires a `group_id`")
        return None
    if not wire_string("group_id", group_id):
        raise KafkaConfigurationError("`group_id` should be None or not empty")
    _check_instance_id(group_instance_id)
    if group_remote_assignor is not None:
        if not wire_string("group_remote_assignor", group_remote_assignor):
            raise KafkaConfigurationError("`group_remote_assignor` should be None or not empty")
        _refuse_if(not modern, "group_remote_assignor", "classic")
    given = tuple(partition_assignment_strategy) != DEFAULT_STRATEGY
    _refuse_if(modern and given, "partition_assignment_strategy", "consumer")
    _refuse_if(
        modern and session_timeout_ms != DEFAULT_SESSION_MS, "session_timeout_ms", "consumer"
    )
    _refuse_if(
        modern and heartbeat_interval_ms != DEFAULT_HEARTBEAT_MS,
        "heartbeat_interval_ms",
        "consumer",
    )
    if heartbeat >= session:
        if heartbeat_interval_ms != DEFAULT_HEARTBEAT_MS:
            raise KafkaConfigurationError(
                "`heartbeat_interval_ms` should be less than `session_timeout_ms`"
            )
        heartbeat = session / 3  # aiokafka accepts a short session alone, and the member expires
    if rebalance is None and modern:
        rebalance = poll_interval  # as in Java; the broker sets the session timeout
    from aiokafka_lite.group.membership import MembershipOptions

    return GroupOptions(
        membership=MembershipOptions(
            group_id=group_id,
            group_instance_id=group_instance_id,
            session_timeout=session,
            heartbeat_interval=heartbeat,
            rebalance_timeout=rebalance,
            max_poll_interval=poll_interval,
            request_timeout=options.request_timeout,
            retry_backoff=Backoff(
                max(options.retry_backoff, LEAST_BACKOFF),
                max(options.retry_backoff_max, LEAST_BACKOFF),
            ),
            client_rack=options.client_rack or None,
            server_assignor=group_remote_assignor,
        ),
        modern=modern,
        strategy=tuple(partition_assignment_strategy),
    )


def _refuse_if(conflict: bool, name: str, protocol: str) -> None:
    if conflict:
        raise KafkaConfigurationError(f"`{name}` cannot be set with group_protocol={protocol!r}")


def _check_instance_id(instance_id: str | None) -> None:
    if instance_id is None:
        return
    wire_string("group_instance_id", instance_id)
    if instance_id in (".", "..") or not _INSTANCE_ID.fullmatch(instance_id):
        raise KafkaConfigurationError(
            "`group_instance_id` should be 1 to 249 letters, digits, '.', '_' or '-' (and not "
            f"'.' or '..'), not {instance_id!r}"
        )
