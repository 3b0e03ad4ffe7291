"""The connection settings of a command, gathered from flags, -X, -F, the environment, a profile.

Settings are kept by Kafka's dotted names; librdkafka's names are accepted for the same options.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from typing import Final

from aiokafka_lite.cli.connection.profiles import load_profiles
from aiokafka_lite.cli.failures import UsageError
from aiokafka_lite.spark.kafka_options.client_options import own_spelling

__all__ = [
    "DEFAULT_TIMEOUT",
    "ENVIRONMENT",
    "Settings",
    "canonical",
    "gather",
    "option_pairs",
    "saved_settings",
]

DEFAULT_TIMEOUT: Final = 10.0
ENVIRONMENT: Final = "AIOKAFKA_LITE_"

# librdkafka's names of options that Java has, too.
_SYNONYMS: Final = {
    "batch.num.messages": "",  # no equivalent: batches are bounded by bytes
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
    "socket.timeout.ms": "request.timeout.ms",
}
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Without a security.protocol, one of these selects SASL.
_MEAN_SASL: Final = ("sasl.jaas.config", "sasl.kerberos.keytab", "sasl.kerberos.principal")
# Without a security.protocol, one of these selects TLS.
_MEAN_TLS: Final = (
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.cadata",
    "ssl.cafile",
    "ssl.certfile",
    "ssl.certificate.location",
    "ssl.certificate.pem",
)
# Read from the environment: AIOKAFKA_LITE_BOOTSTRAP_SERVERS and so on.
_FROM_ENVIRONMENT: Final = (
    "bootstrap.servers",
    "client.id",
    "sasl.mechanism",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)


class Settings:
    """Options by Kafka's names, and where each came from.

    Attributes:
        options: The options.
        sources: By name: "-X", "-F FILE", "profile NAME", the variable, or the flag.
        timeout: Seconds to wait for an answer.
        patient: True if `--timeout` was given: it bounds deliveries, too.
        quiet: True to print no notices.
    """

    def __init__(self, *, timeout: float | None = None, quiet: bool = False) -> None:
        self.options: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.timeout = DEFAULT_TIMEOUT if timeout is None else timeout
        self.patient = timeout is not None
        self.quiet = quiet

    def add(self, options: Mapping[str, str], source: str) -> None:
        """Add options that override those added before."""
        for name, value in options.items():
            known = canonical(name)
            if known:
                self.options[known] = value
                self.sources[known] = source


def canonical(name: str) -> str:
    """Return Java's name of an option; "" if it has no effect here."""
    name = name.strip().lower()
    if name.startswith("sasl_kerberos_"):
        return name.replace("_", ".")
    return _SYNONYMS.get(name, own_spelling(name))


def option_pairs(pairs: list[str]) -> dict[str, str]:
    """Return the options of -X KEY=VALUE.

    Raises:
        UsageError: An argument is not KEY=VALUE. The error does not show it: it may contain a
        password.
    """
    options: dict[str, str] = {}
    for number, pair in enumerate(pairs, 1):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"-X number {number} is not KEY=VALUE")
        options[name] = value
    return options


def gather(
    args: argparse.Namespace,
    environ: Mapping[str, str] = os.environ,
    prompt: Callable[[str], str] | None = None,
) -> Settings:
    """Gather the settings of a command; prompt for a password that is needed and missing.

    Args:
        args: The connection flags.
        environ: The variables.
        prompt: Returns a password; by default it asks at the terminal.

    Raises:
        UsageError: A profile, a file or an option is invalid, or a password is needed and there is
            no terminal for the prompt.
    """
    settings = Settings(timeout=args.timeout, quiet=args.quiet)
    profiles = load_profiles(environ)
    name = args.profile or environ.get(f"{ENVIRONMENT}PROFILE") or profiles.current
    if name:
        settings.add(profiles.named(name), f"profile {name}")
    for option in _FROM_ENVIRONMENT:
        variable = ENVIRONMENT + option.upper().replace(".", "_")
        if environ.get(variable):
            settings.add({option: environ[variable]}, variable)
    if args.config_file:
        settings.add(_read(args.config_file), f"-F {args.config_file}")
    settings.add(option_pairs(args.options), "-X")
    _add_flags(settings, args)
    _complete_security(settings, prompt)
    return settings


def saved_settings(args: argparse.Namespace) -> Settings:
    """Return the settings from -F, -X and the flags that a profile stores, without prompting.

    Raises:
        UsageError: A file or an option is invalid.
    """
    settings = Settings(quiet=args.quiet)
    if args.config_file:
        settings.add(_read(args.config_file), f"-F {args.config_file}")
    settings.add(option_pairs(args.options), "-X")
    _add_flags(settings, args)
    if settings.options["security.protocol"] == "PLAINTEXT":
        del settings.options["security.protocol"]
    return settings


def _read(path: str) -> dict[str, str]:
    from aiokafka_lite.cli.connection.property_files import read_option_file  # rarely used

    return read_option_file(path)


def _add_flags(settings: Settings, args: argparse.Namespace) -> None:
    for flag, option in (
        ("bootstrap", "bootstrap.servers"),
        ("user", "sasl.username"),
        ("password", "sasl.password"),
        ("sasl_mechanism", "sasl.mechanism"),
        ("ca", "ssl.ca.location"),
    ):
        value = getattr(args, flag)
        if value is not None:
            settings.add({option: value}, f"--{flag.replace('_', '-')}")
    if args.user is not None:
        if args.password is None and settings.sources.get("sasl.password") != "-X":
            # A password of a profile or file belongs to the user named there.
            _forget_other_password(settings)
        settings.options.pop("sasl.jaas.config", None)
    options = settings.options
    protocol = options.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:  # otherwise, a misspelled one would connect without TLS
        raise UsageError(f"security.protocol is one of {', '.join(_PROTOCOLS)}, not {protocol!r}")
    sasl = protocol.startswith("SASL_") or "sasl.username" in options
    tls = protocol.endswith("SSL") or args.tls or args.ca is not None
    if "security.protocol" not in options:
        tls = tls or any(name in options for name in _MEAN_TLS)
        sasl = sasl or any(name in options for name in _MEAN_SASL)
    wanted = f"{'SASL_' if sasl else ''}{'SSL' if tls else ''}" or "PLAINTEXT"
    options["security.protocol"] = "SASL_PLAINTEXT" if wanted == "SASL_" else wanted


def _forget_other_password(settings: Settings) -> None:
    if settings.sources.get("sasl.password") != f"{ENVIRONMENT}SASL_PASSWORD":
        settings.options.pop("sasl.password", None)


def _complete_security(settings: Settings, prompt: Callable[[str], str] | None) -> None:
    options = settings.options
    options.setdefault("bootstrap.servers", "localhost:9092")
    protocol = options["security.protocol"]
    if not protocol.startswith("SASL_") or "sasl.jaas.config" in options:
        return
    if "sasl.username" in options:
        default = "PLAIN" if protocol == "SASL_SSL" else "SCRAM-SHA-512"
        options.setdefault("sasl.mechanism", default)
    mechanism = options.get("sasl.mechanism", "").upper()
    if mechanism not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        return
    if "sasl.username" not in options:
        raise UsageError(f"SASL {mechanism} needs a user: --user NAME")
    if "sasl.password" not in options:
        user = options["sasl.username"]
        if prompt is None and not _has_terminal():
            raise UsageError(
                f"a password for user {user!r} is needed, and there is no terminal to prompt for "
                f"it: set {ENVIRONMENT}SASL_PASSWORD, or sasl.password in a profile or a -F file"
            )
        try:
            options["sasl.password"] = (prompt or _ask)(f"Password for {user}: ")
        except EOFError:
            raise UsageError(f"no password for user {user!r} was entered") from None
        settings.sources["sasl.password"] = "the prompt"


def _ask(text: str) -> str:
    import getpass

    return getpass.getpass(text)


def _has_terminal() -> bool:
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return sys.stdin.isatty()
    os.close(descriptor)
    return True
