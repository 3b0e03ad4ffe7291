"""Converts settings to arguments of the clients.

The tables of options are those of `spark`, so that an option means the same in both. Modules that
only TLS, SASL or an unknown option needs are imported on demand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiokafka_lite.cli.connection.settings import Settings
from aiokafka_lite.cli.failures import UsageError
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.spark.kafka_options.client_options import (
    CONSUMER_OPTIONS,
    LEFT_BY_CONSUMERS,
    LEFT_BY_PRODUCERS,
    LEVELS,
    PRODUCER_OPTIONS,
)

__all__ = [
    "check_names",
    "consumer_arguments",
    "producer_arguments",
    "share_arguments",
    "shared_arguments",
]

_GROUP_OPTIONS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "group.instance.id": ("group_instance_id", str),
    "group.protocol": ("group_protocol", str.lower),
    "group.remote.assignor": ("group_remote_assignor", str),
    "heartbeat.interval.ms": ("heartbeat_interval_ms", int),
    "max.poll.interval.ms": ("max_poll_interval_ms", int),
    "session.timeout.ms": ("session_timeout_ms", int),
}
_SHARE_OPTIONS: Final = {
    **{
        name: CONSUMER_OPTIONS[name]
        for name in (
            "check.crcs",
            "client.rack",
            "default.api.timeout.ms",
            "fetch.max.bytes",
            "fetch.max.wait.ms",
            "fetch.min.bytes",
        )
    },
}
_SHARE_MEMBER_OPTIONS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "max.poll.interval.ms": ("max_poll_interval_ms", int),
    "max.poll.records": ("max_poll_records", int),
}
_LIBRDKAFKA_TLS: Final = {
    "ssl.ca.location": "ssl.cafile",
    "ssl.ca.pem": "ssl.cadata",
    "ssl.certificate.location": "ssl.certfile",
    "ssl.certificate.pem": "ssl.certfile",
    "ssl.key.location": "ssl.keyfile",
    "ssl.key.pem": "ssl.keyfile",
}
"""librdkafka's names of the TLS options, and the clients' names of them."""
_KERBEROS: Final = {
    "sasl.kerberos.cache": "sasl_kerberos_cache",
    "sasl.kerberos.domain.name": "sasl_kerberos_domain_name",
    "sasl.kerberos.keytab": "sasl_kerberos_keytab",
    "sasl.kerberos.principal": "sasl_kerberos_principal",
}
"""The options that replace a JAAS line in librdkafka and in the clients themselves."""
_OWN: Final = {
    *_KERBEROS,
    *_LIBRDKAFKA_TLS,
    "enable.ssl.certificate.verification",
    *(f"compression.{codec}.level" for codec in LEVELS),
    "compression.level",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "transactional.id",
}


def shared_arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments of all clients: addresses, security, timeouts.

    Raises:
        UsageError: An option of -X is unknown, or a value is invalid.
    """
    check_names(settings)
    both = {
        name: each
        for name, each in CONSUMER_OPTIONS.items()
        if name in PRODUCER_OPTIONS and PRODUCER_OPTIONS[name] == each
    }
    arguments = _converted(settings.options, both)
    arguments.setdefault("client_id", "aiokafka-lite-cli")
    arguments.setdefault("request_timeout_ms", int(settings.timeout * 1000))
    arguments.setdefault(
        "socket_connection_setup_timeout_ms", min(10_000, int(settings.timeout * 1000))
    )
    return arguments | _security(settings.options)


def consumer_arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments of `AIOKafkaConsumer`, those about groups included.

    Raises:
        UsageError: As for `shared_arguments`.
    """
    arguments = shared_arguments(settings) | _converted(settings.options, CONSUMER_OPTIONS)
    arguments |= _of_members(settings, _GROUP_OPTIONS)
    return arguments | {"allow_auto_create_topics": False, "enable_auto_commit": False}


def share_arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments of `AIOKafkaShareConsumer`.

    Raises:
        UsageError: As for `shared_arguments`; or -X names an option of other consumers, which the
            share group itself configures.
    """
    of_other_groups = (CONSUMER_OPTIONS.keys() | _GROUP_OPTIONS.keys()) - PRODUCER_OPTIONS.keys()
    for name in sorted(of_other_groups - _SHARE_OPTIONS.keys() - _SHARE_MEMBER_OPTIONS.keys()):
        if settings.sources.get(name) == "-X":
            raise UsageError(
                f"-X {name}: share groups have no such option; `aiokafka-lite config"
                " get group GROUP` prints the group's configurations"
            )
    arguments = shared_arguments(settings) | _converted(settings.options, _SHARE_OPTIONS)
    arguments |= _of_members(settings, _SHARE_MEMBER_OPTIONS)
    return arguments | {"allow_auto_create_topics": False}


def producer_arguments(settings: Settings, *, bulk: bool = False) -> dict[str, Any]:
    """Return the arguments of `AIOKafkaProducer`.

    Args:
        settings: The settings.
        bulk: True for batches that are larger than the client's by default: they cost less.

    Raises:
        UsageError: As for `shared_arguments`.
    """
    options = settings.options
    arguments = shared_arguments(settings) | _converted(options, PRODUCER_OPTIONS)
    codec = arguments.get("compression_type")
    level = options.get(f"compression.{codec}.level", options.get("compression.level"))
    if codec is not None and level is not None:
        try:
            arguments["compression_level"] = int(level)
        except ValueError:
            raise UsageError(f"a compression level is a whole number, not {level!r}") from None
    if bulk:
        arguments.setdefault("linger_ms", 5)
        arguments.setdefault("max_batch_size", 128 * 1024)
    arguments.setdefault("max_block_ms", int(settings.timeout * 1000))
    if settings.patient and "delivery_timeout_ms" not in arguments:
        linger = arguments.get("linger_ms", 0)
        least = arguments["request_timeout_ms"] + linger
        arguments["delivery_timeout_ms"] = max(int(settings.timeout * 1000), least)
    return arguments


def _converted(options: Mapping[str, str], table: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (argument, convert) in table.items():
        if name in options:
            try:
                found[argument] = convert(name, options[name])
            except KafkaConfigurationError as error:
                raise UsageError(str(error)) from None
    return found


def _of_members(
    settings: Settings, table: Mapping[str, tuple[str, Callable[[str], object]]]
) -> dict[str, object]:
    """Return the arguments of a group's member."""
    found = {}
    for name, (argument, convert) in table.items():
        if name in settings.options:
            try:
                found[argument] = convert(settings.options[name])
            except ValueError:
                raise UsageError(
                    f"{name} should be a whole number, not {settings.options[name]!r}"
                ) from None
    return found


def check_names(settings: Settings) -> None:
    """Check that clients have the options, and report the options of files that they ignore.

    Raises:
        UsageError: An option of -X is unknown.
    """
    if settings.sources.keys() <= _OWN | CONSUMER_OPTIONS.keys():
        return
    from difflib import get_close_matches

    from aiokafka_lite.spark.kafka_options.jaas import SASL_OPTIONS
    from aiokafka_lite.spark.kafka_options.tls import TLS_OPTIONS

    others = CONSUMER_OPTIONS.keys() | PRODUCER_OPTIONS.keys() | _GROUP_OPTIONS.keys()
    known = others | LEFT_BY_CONSUMERS | LEFT_BY_PRODUCERS | SASL_OPTIONS | TLS_OPTIONS | _OWN
    for name, source in settings.sources.items():
        if name in known or name.startswith("config.providers."):
            continue
        if source == "-X":
            near = get_close_matches(name, sorted(known), 1, 0.7)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"-X {name}: there is no such option{hint}")
        if not settings.quiet:
            print(f"{source}: option {name} has no effect here", file=sys.stderr)


def _security(options: Mapping[str, str]) -> dict[str, Any]:
    protocol = options["security.protocol"]
    arguments: dict[str, Any] = {"security_protocol": protocol}
    try:
        if protocol.endswith("SSL"):
            arguments |= _tls(options)
        if protocol.startswith("SASL_"):
            arguments |= _sasl(options)
    except KafkaConfigurationError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"the certificates or the key cannot be used: {error}") from error
    return arguments


def _sasl(options: Mapping[str, str]) -> dict[str, Any]:
    given = [name for name in _KERBEROS if name in options]
    if options.get("sasl.mechanism", "GSSAPI").upper() == "GSSAPI":
        if "sasl.kerberos.kinit.cmd" in options:
            raise UsageError(
                "sasl.kerberos.kinit.cmd has no equivalent, because no kinit is run: set"
                " sasl.kerberos.keytab, or run kinit yourself"
            )
        if given:
            if "sasl.jaas.config" in options:
                raise UsageError(f"{given[0]} and sasl.jaas.config cannot be combined")
            service = options.get("sasl.kerberos.service.name", "kafka")  # librdkafka's default
            arguments = {_KERBEROS[name]: options[name] for name in given}
            return {
                "sasl_mechanism": "GSSAPI",
                "sasl_kerberos_service_name": service,
                **arguments,
            }
    if "sasl.username" not in options or "sasl.jaas.config" in options:
        from aiokafka_lite.spark.kafka_options.jaas import sasl_arguments

        return sasl_arguments(options)
    return {
        "sasl_mechanism": options["sasl.mechanism"].upper(),
        "sasl_plain_username": options["sasl.username"],
        "sasl_plain_password": options["sasl.password"],
    }


def _tls(options: Mapping[str, str]) -> dict[str, Any]:
    from aiokafka_lite.spark.kafka_options.tls import tls_arguments

    given = dict(options)
    if given.get("ssl.endpoint.identification.algorithm", "").lower() == "none":
        given["ssl.endpoint.identification.algorithm"] = ""  # librdkafka's word for it
    verify = given.get("enable.ssl.certificate.verification", "true").lower() != "false"
    if any(name in given for name in _LIBRDKAFKA_TLS):
        key_password = given.pop("ssl.key.password", None)
        given = {_LIBRDKAFKA_TLS.get(name, name): value for name, value in given.items()}
        if key_password is not None:
            given.setdefault("ssl.password", key_password)
    arguments = tls_arguments(given)
    if verify:
        return arguments
    import ssl

    from aiokafka_lite.net.tls.tls_options import tls_options

    context = tls_options(arguments | {"ssl_check_hostname": False}).load().context
    context.verify_mode = ssl.CERT_NONE
    return {"ssl_context": context}
