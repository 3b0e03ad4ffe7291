"""Converts `kafka.*` options, with Java's names, to arguments of this package's clients.

Readers and writers have a table each. A supported option becomes an argument. An option without
effect, because Spark does its work or because it tunes something that does not exist here, is
ignored. An unsupported option raises an error that names the alternative, and so does one that
Kafka does not have. The arguments can be pickled and compared: they are sent to Spark's executors
with each task, where tasks with equal arguments share a client.

Source: ConsumerConfig, ProducerConfig and CommonClientConfigs of Kafka's clients;
KafkaSourceProvider of Spark's connector for what it forbids.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from aiokafka_lite.errors import KafkaConfigurationError

__all__ = ["PREFIX", "consumer_arguments", "kafka_options", "producer_arguments"]

logger = logging.getLogger(__name__)

PREFIX: Final = "kafka."

Converter: TypeAlias = Callable[[str, str], object]
"""Converts an option's name and text to an argument."""

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NULL_IS_LESS: Final = "-1"


def _text(_: str, value: str) -> str:
    return value


def _lower(_: str, value: str) -> str:
    return value.lower()


def _whole(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise _wrong(name, "a whole number", value) from None


def _idle(name: str, value: str) -> int | None:
    return None if value.strip() == _NULL_IS_LESS else _whole(name, value)


def _flag(name: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise _wrong(name, "true or false", value)
    return value.strip().lower() == "true"


def _acks(name: str, value: str) -> object:
    return "all" if value.strip() in ("all", "-1") else _whole(name, value)


def _codec(_: str, value: str) -> str | None:
    return None if value.strip().lower() == "none" else value.strip().lower()


def _one_of(*allowed: str) -> Converter:
    def convert(name: str, value: str) -> object:
        if value.strip().lower() not in allowed:
            raise _wrong(name, " or ".join(allowed), value)
        return value.strip().lower()

    return convert


def _wrong(name: str, wanted: str, value: str) -> KafkaConfigurationError:
    return KafkaConfigurationError(f"Kafka option '{name}' should be {wanted}, not {value!r}")


# Options that become arguments

_OF_BOTH: Final[Mapping[str, tuple[str, Converter]]] = {
    "bootstrap.servers": ("bootstrap_servers", _text),
    "client.dns.lookup": (
        "client_dns_lookup",
        _one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    "client.id": ("client_id", _text),
    "client.rack": ("client_rack", _text),
    "connections.max.idle.ms": ("connections_max_idle_ms", _idle),
    "enable.metrics.push": ("enable_metrics_push", _flag),
    "metadata.cluster.check.enable": ("metadata_cluster_check_enable", _flag),
    "metadata.max.age.ms": ("metadata_max_age_ms", _whole),
    "metadata.recovery.rebootstrap.trigger.ms": (
        "metadata_recovery_rebootstrap_trigger_ms",
        _whole,
    ),
    "metadata.recovery.strategy": (
        "metadata_recovery_strategy",
        _one_of("rebootstrap", "none"),
    ),
    "proxy.url": ("proxy_url", _text),
    "receive.buffer.bytes": ("receive_buffer_bytes", _whole),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", _whole),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", _whole),
    "request.timeout.ms": ("request_timeout_ms", _whole),
    "retry.backoff.max.ms": ("retry_backoff_max_ms", _whole),
    "retry.backoff.ms": ("retry_backoff_ms", _whole),
    "send.buffer.bytes": ("send_buffer_bytes", _whole),
    "socket.connection.setup.timeout.max.ms": ("socket_connection_setup_timeout_max_ms", _whole),
    "socket.connection.setup.timeout.ms": ("socket_connection_setup_timeout_ms", _whole),
}
CONSUMER_OPTIONS: Final[Mapping[str, tuple[str, Converter]]] = {
    **_OF_BOTH,
    "check.crcs": ("check_crcs", _flag),
    "default.api.timeout.ms": ("default_api_timeout_ms", _whole),
    "fetch.max.bytes": ("fetch_max_bytes", _whole),
    "fetch.max.wait.ms": ("fetch_max_wait_ms", _whole),
    "fetch.min.bytes": ("fetch_min_bytes", _whole),
    "isolation.level": ("isolation_level", _lower),
    "max.partition.fetch.bytes": ("max_partition_fetch_bytes", _whole),
}
PRODUCER_OPTIONS: Final[Mapping[str, tuple[str, Converter]]] = {
    **_OF_BOTH,
    "acks": ("acks", _acks),
    "batch.size": ("max_batch_size", _whole),
    "buffer.memory": ("buffer_memory", _whole),
    "compression.type": ("compression_type", _codec),
    "delivery.timeout.ms": ("delivery_timeout_ms", _whole),
    "enable.idempotence": ("enable_idempotence", _flag),
    "linger.ms": ("linger_ms", _whole),
    "max.block.ms": ("max_block_ms", _whole),
    "max.in.flight.requests.per.connection": ("max_in_flight_requests_per_connection", _whole),
    "max.request.size": ("max_request_size", _whole),
    "metadata.max.idle.ms": ("metadata_max_idle_ms", _whole),
    "partitioner.adaptive.partitioning.enable": (
        "partitioner_adaptive_partitioning_enable",
        _flag,
    ),
    "partitioner.availability.timeout.ms": ("partitioner_availability_timeout_ms", _whole),
    "partitioner.ignore.keys": ("partitioner_ignore_keys", _flag),
    "partitioner.rack.aware": ("partitioner_rack_aware", _flag),
    "transaction.timeout.ms": ("transaction_timeout_ms", _whole),
}
LEVELS: Final = ("gzip", "lz4", "zstd")
"""Codecs with their own option, `compression.CODEC.level`."""

# Options without effect

_LEFT_BY_BOTH: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
    }
)
LEFT_BY_CONSUMERS: Final = _LEFT_BY_BOTH | {
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "exclude.internal.topics",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "max.poll.records",
    "partition.assignment.strategy",
    "session.timeout.ms",
}
LEFT_BY_PRODUCERS: Final = _LEFT_BY_BOTH | {"transaction.two.phase.commit.enable"}

# Unsupported options

_JAVA_CLASSES: Final = "names Java classes, which cannot be loaded here. Leave it out"

_REFUSED_BY_BOTH: Final[Mapping[str, str]] = {
    "config.providers": _JAVA_CLASSES,
    "metric.reporters": _JAVA_CLASSES,
    "security.providers": _JAVA_CLASSES,
}
REFUSED_BY_CONSUMERS: Final[Mapping[str, str]] = {
    **_REFUSED_BY_BOTH,
    "auto.offset.reset": (
        "is not supported. Instead set the source option 'startingOffsets' to 'earliest' or "
        "'latest' to specify where to start. Structured Streaming manages which offsets are "
        "consumed internally: 'startingOffsets' only applies when a new streaming query is "
        "started, and resuming will always pick up from where the query left off"
    ),
    "enable.auto.commit": (
        "is not supported: Spark's checkpoint keeps the offsets, and nothing is committed to Kafka"
    ),
    "interceptor.classes": "is not supported: interceptors could change the records that are read",
    "key.deserializer": (
        "is not supported as keys are read as byte arrays. Use DataFrame operations to explicitly "
        "deserialize the keys"
    ),
    "value.deserializer": (
        "is not supported as values are read as byte arrays. Use DataFrame operations to "
        "explicitly deserialize the values"
    ),
}
REFUSED_BY_PRODUCERS: Final[Mapping[str, str]] = {
    **_REFUSED_BY_BOTH,
    "interceptor.classes": _JAVA_CLASSES,
    "key.serializer": "is not supported as keys are written as byte arrays",
    "partitioner.class": (
        "names a Java class, which cannot be loaded here. Compute the column 'partition' instead, "
        "or leave the option out to use Kafka's default partitioner"
    ),
    "transactional.id": (
        "is not supported: each task needs its own transactional id. Set the options "
        "'deliveryGuarantee' to 'exactly_once' and 'transactionalIdPrefix' instead"
    ),
    "value.serializer": "is not supported as values are written as byte arrays",
}


def kafka_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the `kafka.*` options by Kafka's names, in lower case.

    Args:
        options: The options from Spark.
    """
    return {
        own_spelling(name.lower().removeprefix(PREFIX)): value
        for name, value in options.items()
        if name.lower().startswith(PREFIX)
    }


def own_spelling(name: str) -> str:
    """Return the name of an option with dots, if it is one of this client's with underscores.

    So `ssl_cafile` is the same as `ssl.cafile`.
    """
    return name.replace("_", ".") if name.startswith(("ssl_", "proxy_")) else name


def consumer_arguments(options: Mapping[str, str]) -> dict[str, object]:
    """Return the arguments of an `AIOKafkaConsumer` whose offsets Spark manages.

    Args:
        options: The options from Spark, with names in any case; only `kafka.*` options matter.

    Returns:
        The given options, and settings that disable resets, auto-commit and topic creation.

    Raises:
        KafkaConfigurationError: One that is missing, forbidden, unknown or cannot be honoured.
    """
    given = kafka_options(options)
    others = PRODUCER_OPTIONS.keys() | LEFT_BY_PRODUCERS
    _check(given, CONSUMER_OPTIONS, LEFT_BY_CONSUMERS, REFUSED_BY_CONSUMERS, others, "consumer")
    arguments = _arguments(given, CONSUMER_OPTIONS)
    arguments |= {
        "allow_auto_create_topics": False,
        "auto_offset_reset": "none",
        "enable_auto_commit": False,
    }
    if arguments.get("isolation_level", "read_uncommitted") not in (
        "read_uncommitted",
        "read_committed",
    ):
        raise _wrong(
            "isolation.level", "'read_uncommitted' or 'read_committed'", given["isolation.level"]
        )
    return arguments


def producer_arguments(options: Mapping[str, str]) -> dict[str, object]:
    """Return the arguments of an `AIOKafkaProducer` for keys and values in bytes.

    Args:
        options: The options from Spark, with names in any case; only `kafka.*` options matter.

    Returns:
        The given options, and nothing else.

    Raises:
        KafkaConfigurationError: One that is missing, forbidden, unknown or cannot be honoured.
    """
    given = kafka_options(options)
    retries = given.pop("retries", None)
    if retries is not None and _whole("retries", retries) < 1:
        raise KafkaConfigurationError(
            "Kafka option 'retries' is not supported below 1: sends are retried until "
            "'delivery.timeout.ms' expires. Lower 'delivery.timeout.ms' instead"
        )
    levels = {codec: given.pop(f"compression.{codec}.level", None) for codec in LEVELS}
    others = CONSUMER_OPTIONS.keys() | LEFT_BY_CONSUMERS
    _check(given, PRODUCER_OPTIONS, LEFT_BY_PRODUCERS, REFUSED_BY_PRODUCERS, others, "producer")
    arguments = _arguments(given, PRODUCER_OPTIONS)
    codec = arguments.get("compression_type")
    if isinstance(codec, str) and (level := levels.get(codec)) is not None:
        arguments["compression_level"] = _whole(f"compression.{codec}.level", level)
    return arguments


def _check(
    given: dict[str, str],
    known: Mapping[str, object],
    no_effect: frozenset[str],
    refused: Mapping[str, str],
    of_the_other: frozenset[str] | set[str],
    client: str,
) -> None:
    """Reject invalid options, and remove from `given` those without effect."""
    from aiokafka_lite.spark.kafka_options.jaas import SASL_OPTIONS
    from aiokafka_lite.spark.kafka_options.tls import TLS_OPTIONS

    if "bootstrap.servers" not in given:
        raise KafkaConfigurationError(
            f"Option 'kafka.bootstrap.servers' must be specified for configuring Kafka {client}"
        )
    secured = SASL_OPTIONS | TLS_OPTIONS | {"security.protocol"}
    for name in list(given):
        if name in known or name in secured:
            continue
        if name in refused:
            raise KafkaConfigurationError(f"Kafka option '{name}' {refused[name]}")
        if name in no_effect or name.startswith("config.providers."):
            logger.debug("Kafka option %r has no effect here", name)
        elif name in of_the_other:
            logger.warning("Kafka option %r has no effect on a %s", name, client)
        else:
            from difflib import get_close_matches

            near = get_close_matches(name, [*known, *secured], 1, 0.7)
            hint = f"; did you mean 'kafka.{near[0]}'?" if near else ""
            raise KafkaConfigurationError(f"Kafka has no {client} option '{name}'{hint}")
        del given[name]


def _arguments(
    given: Mapping[str, str], table: Mapping[str, tuple[str, Converter]]
) -> dict[str, object]:
    arguments: dict[str, object] = {}
    for name, (argument, convert) in table.items():
        if name in given:
            arguments[argument] = convert(name, given[name])
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise _wrong("security.protocol", f"one of {', '.join(_PROTOCOLS)}", protocol)
    if protocol != "PLAINTEXT":
        arguments["security_protocol"] = protocol
    if protocol.endswith("SSL"):
        from aiokafka_lite.net.tls.tls_options import tls_options
        from aiokafka_lite.spark.kafka_options.tls import tls_arguments

        tls = tls_arguments(given)
        try:
            tls_options(tls).load()  # so that an unusable file fails here, not in each task
        except KafkaConfigurationError as error:
            raise KafkaConfigurationError(
                f"The certificates or the key of the options 'kafka.ssl.*' cannot be used: {error}"
            ) from error
        arguments |= tls
    if protocol.startswith("SASL_"):
        from aiokafka_lite.spark.kafka_options.jaas import sasl_arguments

        arguments |= sasl_arguments(given)
    return arguments
