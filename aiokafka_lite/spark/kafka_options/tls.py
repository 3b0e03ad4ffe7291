"""Converts Kafka's `ssl.*` options to a TLS context that can be sent to Spark's executors.

A plain `ssl.SSLContext` can be neither pickled nor compared: it could not be sent with a task, and
a worker could not see that the next task can reuse its connections. This one is created again on
the executor, from files of that machine (as Java does) or from PEM text in its settings.

Source: SslConfigs and DefaultSslEngineFactory of Kafka's clients (KIP-651 for PEM).
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from aiokafka_lite.errors import KafkaConfigurationError

__all__ = ["TLS_OPTIONS", "TLS_REFUSED", "TlsContext", "TlsSettings", "tls_settings"]

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_JAVA_ONLY: Final = (
    "ssl.cipher.suites",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)

TLS_OPTIONS: Final = frozenset(
    {
        *_JAVA_ONLY,
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Every `ssl.*` option of Kafka's clients."""

TLS_REFUSED: Final = frozenset({*_JAVA_ONLY, "ssl.keystore.password", "ssl.truststore.password"})
"""Those of them that do not apply to PEM and OpenSSL."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The settings of a context.

    Attributes:
        trusted_file: PEM file with the trusted CA certificates.
        trusted: The trusted CA certificates as PEM text. Without either, the system's are used.
        own_file: PEM file with this client's certificate chain and private key.
        own: The same as PEM text.
        key_password: Password of an encrypted key.
        check_hostname: True if the broker's certificate must match its host name.
        oldest, newest: TLS versions, by Java's names.
    """

    trusted_file: str | None = None
    trusted: str | None = None
    own_file: str | None = None
    own: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    oldest: str = "TLSv1.2"
    newest: str = "TLSv1.3"


class TlsContext(ssl.SSLContext):
    """A client context that can be pickled, and equals others with the same settings.

    Args:
        settings: The settings; their files are read immediately.

    Raises:
        OSError: A file cannot be read; `ssl.SSLError` (an OSError) if a certificate or key is
            invalid.
    """

    settings: TlsSettings

    def __new__(cls, settings: TlsSettings) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, settings: TlsSettings) -> None:
        self.settings = settings
        self.minimum_version = _VERSIONS[settings.oldest]
        self.maximum_version = _VERSIONS[settings.newest]
        self.check_hostname = settings.check_hostname
        if settings.trusted_file is not None or settings.trusted is not None:
            self.load_verify_locations(settings.trusted_file, cadata=settings.trusted)
        else:
            self.load_default_certs()
        if settings.own_file is not None:
            self.load_cert_chain(settings.own_file, password=settings.key_password or "")
        if settings.own is not None:
            self._load_own(settings.own, settings.key_password or "")

    def _load_own(self, pem: str, password: str) -> None:
        import tempfile  # rarely needed, and slow to import

        # OpenSSL reads keys only from files; this one is private to the user and short-lived.
        handle, path = tempfile.mkstemp(suffix=".pem")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(pem)
            self.load_cert_chain(path, password=password)
        finally:
            os.unlink(path)

    def __reduce__(self) -> tuple[type[TlsContext], tuple[TlsSettings]]:
        return TlsContext, (self.settings,)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TlsContext):
            return NotImplemented
        return self.settings == other.settings

    def __hash__(self) -> int:
        return hash(self.settings)


def tls_settings(options: Mapping[str, str]) -> TlsSettings:
    """Return the settings for Kafka's options.

    Args:
        options: Options by Kafka's names; those that are not about TLS are ignored.

    Raises:
        KafkaConfigurationError: An option works only in Java (the message names the alternative),
            or options contradict each other.
    """
    for name in _JAVA_ONLY:
        if name in options:
            raise KafkaConfigurationError(
                f"Kafka option '{name}' is specific to Java and is not supported: this client uses "
                "OpenSSL, with its own ciphers and algorithms. Leave it out"
            )
    for store in ("truststore", "keystore"):
        _check_store(options, store)
    trusted_file = options.get("ssl.truststore.location")
    trusted = options.get("ssl.truststore.certificates")
    if trusted_file is not None and trusted is not None:
        raise _both("ssl.truststore.location", "ssl.truststore.certificates")
    chain, key = options.get("ssl.keystore.certificate.chain"), options.get("ssl.keystore.key")
    own_file = options.get("ssl.keystore.location")
    if own_file is not None and (chain is not None or key is not None):
        raise _both("ssl.keystore.location", "ssl.keystore.certificate.chain")
    if (chain is None) != (key is None):
        raise KafkaConfigurationError(
            "Kafka options 'ssl.keystore.certificate.chain' and 'ssl.keystore.key' must be set "
            "together"
        )
    oldest, newest = _versions(options)
    return TlsSettings(
        trusted_file=trusted_file,
        trusted=trusted,
        own_file=own_file,
        own=None if chain is None or key is None else f"{key.strip()}\n{chain.strip()}\n",
        key_password=options.get("ssl.key.password"),
        check_hostname=_checks_hostname(options),
        oldest=oldest,
        newest=newest,
    )


def _check_store(options: Mapping[str, str], store: str) -> None:
    """Reject a key store that is not PEM: JKS, Java's default, or PKCS12."""
    inline = ("certificates",) if store == "truststore" else ("certificate.chain", "key")
    parts = [f"ssl.{store}.{part}" for part in ("location", "password", *inline)]
    if f"ssl.{store}.type" not in options and not any(part in options for part in parts):
        return
    kind = options.get(f"ssl.{store}.type", "JKS")
    if kind.upper() != "PEM":
        raise KafkaConfigurationError(
            f"Kafka option 'ssl.{store}.type' is {kind!r}, but only PEM is supported: only Java "
            "reads JKS and PKCS12 stores. Convert the store (`keytool -importkeystore "
            "-srckeystore STORE -destkeystore STORE.p12 -deststoretype PKCS12`, then `openssl "
            f"pkcs12 -in STORE.p12 -out STORE.pem`), and set 'kafka.ssl.{store}.type' to PEM "
            f"and 'kafka.ssl.{store}.location' to that file"
        )
    if f"ssl.{store}.password" in options:
        raise KafkaConfigurationError(
            f"Kafka option 'ssl.{store}.password' cannot be set with PEM (set 'ssl.key.password' "
            "for an encrypted private key)"
        )


def _both(one: str, other: str) -> KafkaConfigurationError:
    return KafkaConfigurationError(f"Kafka options '{one}' and '{other}' are mutually exclusive")


def _versions(options: Mapping[str, str]) -> tuple[str, str]:
    enabled = options.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3")
    named = sorted(each.strip() for each in enabled.split(",") if each.strip())
    for each in named or [enabled]:
        if each not in _VERSIONS:
            raise KafkaConfigurationError(
                f"Kafka option 'ssl.enabled.protocols' should name {' and '.join(_VERSIONS)}, "
                f"not {each!r}"
            )
    protocol = options.get("ssl.protocol", "TLS")  # "TLS" sets no limit, as in Java
    if protocol not in (*_VERSIONS, "TLS"):
        raise KafkaConfigurationError(
            f"Kafka option 'ssl.protocol' should be one of {', '.join(_VERSIONS)}, not {protocol!r}"
        )
    return named[0], named[-1]


def _checks_hostname(options: Mapping[str, str]) -> bool:
    algorithm = options.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm.lower() not in ("https", ""):
        raise KafkaConfigurationError(
            "Kafka option 'ssl.endpoint.identification.algorithm' should be 'https', or empty to "
            f"check no name, not {algorithm!r}"
        )
    return algorithm != ""
