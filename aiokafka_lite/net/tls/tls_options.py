"""A client's TLS options, and the `ssl.SSLContext` that they describe.

Each file is read once, and the context is made from its bytes. So the checked bytes are the ones in
use, and a file that is replaced meanwhile is detected by its identity.

Source: SslConfigs of Kafka's clients; KIP-651 (PEM, as files or text).
"""

import os
import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from aiokafka_lite.errors import KafkaConfigurationError

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_BLOCKS: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_LARGEST_FILE: Final = 16 * 1024 * 1024
_SHORTEST_KEY: Final = 40
"""Fewer characters than those of any private key in base64."""
_JKS: Final = b"\xfe\xed\xfe\xed"


class FileVersion(NamedTuple):
    """Identifies the content of a file without reading it."""

    modified: int
    inode: int
    size: int


class Loaded(NamedTuple):
    """A context and the files that it was made from."""

    context: ssl.SSLContext
    versions: dict[str, FileVersion]
    """By path."""
    own: str | None
    """The client's certificate as PEM text; None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """The TLS options; the fields are the arguments `ssl_*` of the clients.

    Raises:
        KafkaConfigurationError: (a ValueError) two options contradict each other, or a value is
            not supported.
        TypeError: A value has the wrong type.
    """

    cafile: str | None = None
    """The trusted certificates: a path, or PEM text. Without it and `cadata`: the system's."""
    cadata: str | bytes | None = None
    """More trusted certificates: PEM as str, DER as bytes."""
    certfile: str | None = field(default=None, repr=False)  # its text may contain the key
    """This client's certificate chain: a path, or PEM text."""
    keyfile: str | None = field(default=None, repr=False)
    """Its private key: a path, or PEM text; None: in `certfile`."""
    password: str | bytes | None = field(default=None, repr=False)
    """Decrypts the private key."""
    check_hostname: bool = True
    """True if the broker's certificate must match its host name."""
    ciphers: str | None = None
    """OpenSSL's cipher list for TLS 1.2; TLS 1.3 has its own."""
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    """The TLS versions to offer."""

    def __post_init__(self) -> None:
        for name in ("cafile", "certfile", "keyfile"):
            value = getattr(self, name)
            if isinstance(value, os.PathLike):
                value = os.fspath(value)
                object.__setattr__(self, name, value)
            if value is not None and not isinstance(value, str):
                raise TypeError(
                    f"`ssl_{name}` should be a path or PEM text, not {type(value).__name__}"
                )
            if value == "":
                raise KafkaConfigurationError(f"`ssl_{name}` is empty: pass a path or None")
        for name, kinds in (
            ("cadata", (str, bytes)),
            ("password", (str, bytes)),
            ("ciphers", (str,)),
        ):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kinds):
                wanted = " or ".join(kind.__name__ for kind in kinds)
                raise TypeError(f"`ssl_{name}` should be {wanted}, not {type(value).__name__}")
        if not isinstance(self.check_hostname, bool):
            raise TypeError(f"`ssl_check_hostname` should be a bool, not {self.check_hostname!r}")
        if self.keyfile is not None and self.certfile is None:
            raise KafkaConfigurationError(
                "`ssl_keyfile` requires `ssl_certfile`, the certificate that belongs to the key"
            )
        if self.password is not None and self.certfile is None:
            raise KafkaConfigurationError(
                "`ssl_password` decrypts the key of `ssl_certfile`, which is not set"
            )
        if not self.enabled_protocols or not set(self.enabled_protocols) <= VERSIONS.keys():
            raise KafkaConfigurationError(
                f"`ssl_enabled_protocols` should name {' or '.join(VERSIONS)}, or both, not "
                f"{', '.join(map(str, self.enabled_protocols)) or 'none'}"
            )

    @property
    def paths(self) -> list[str]:
        """The files that the context is made from."""
        given = (self.cafile, self.certfile, self.keyfile)
        return [each for each in given if each is not None and not _is_text(each)]

    def load(self) -> Loaded:
        """Read the files and return a new context. It blocks.

        Raises:
            KafkaConfigurationError: A file cannot be read or used; the message names it.
            `unreadable` returns True for the former.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        enabled = [VERSIONS[name] for name in self.enabled_protocols]
        context.minimum_version, context.maximum_version = min(enabled), max(enabled)
        context.check_hostname = self.check_hostname
        if self.ciphers is not None:
            try:
                context.set_ciphers(self.ciphers)
            except ssl.SSLError as error:
                raise KafkaConfigurationError(
                    f"`ssl_ciphers`: OpenSSL knows none of {self.ciphers!r}"
                ) from error
        versions: dict[str, FileVersion] = {}
        self._load_authorities(context, versions)
        own = None if self.certfile is None else self._load_own(context, self.certfile, versions)
        return Loaded(context, versions, own)

    def _load_authorities(self, context: ssl.SSLContext, versions: dict[str, FileVersion]) -> None:
        if self.cafile is None and self.cadata is None:
            context.load_default_certs()
        if self.cafile is not None:
            name, data = _read("ssl_cafile", self.cafile, versions)
            _trust(context, name, _certificates(name, data).decode("ascii"))
        if self.cadata is not None:
            given: str | bytes = self.cadata
            if isinstance(given, str):
                data = given.encode(errors="replace")
                given = _certificates("`ssl_cadata`", data).decode("ascii")
            _trust(context, "`ssl_cadata`", given)

    def _load_own(
        self, context: ssl.SSLContext, certfile: str, versions: dict[str, FileVersion]
    ) -> str:
        name, data = _read("ssl_certfile", certfile, versions)
        chain = _certificates(name, data)
        holder, kept = name, data
        if self.keyfile is not None:
            holder, kept = _read("ssl_keyfile", self.keyfile, versions)
        key = b"\n".join(
            block[0] for block in _BLOCKS.finditer(kept) if block[1].endswith(b"PRIVATE KEY")
        )
        if not key:
            hint = "" if self.keyfile else ": pass the key as `ssl_keyfile`"
            raise KafkaConfigurationError(f"{holder} has no PEM private key{_kind(kept)}{hint}")
        _load_pair(context, key + b"\n" + chain, self.password, name, holder)
        return chain.decode("ascii")


def tls_options(arguments: Mapping[str, object]) -> TlsOptions:
    """Return the options of a client's arguments, by their names with `ssl_`.

    Raises:
        KafkaConfigurationError, TypeError: As `TlsOptions`.
    """
    given = {name.removeprefix("ssl_"): value for name, value in arguments.items()}
    protocols = given.get("enabled_protocols", tuple(VERSIONS))
    if isinstance(protocols, str):
        protocols = [name.strip() for name in protocols.split(",") if name.strip()]
    if not isinstance(protocols, list | tuple | set | frozenset):
        raise TypeError(f"`ssl_enabled_protocols` should be a list of str, not {protocols!r}")
    given["enabled_protocols"] = tuple(protocols)
    return TlsOptions(**cast("dict[str, Any]", given))  # which checks the types


def file_versions(paths: Iterable[str]) -> dict[str, FileVersion | None]:
    """Return the current version of each file, None for one that cannot be read. It blocks."""
    found: dict[str, FileVersion | None] = {}
    for path in paths:
        try:
            found[path] = _version(os.stat(path))
        except OSError:
            found[path] = None
    return found


def unreadable(error: KafkaConfigurationError) -> bool:
    """True if `load` failed because a file could not be read, not because of its content."""
    cause = error.__cause__
    return isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError)


def own_expiry(loaded: Loaded) -> str:
    """Return the text " expired on DATE" if the client's certificate has expired, or ""."""
    if loaded.own is None:
        return ""
    from datetime import UTC, datetime  # slow to import, and few clients have a certificate

    from aiokafka_lite.net.tls.expiry import expiry

    date = expiry(loaded.own)
    if date is None or date > datetime.now(UTC):
        return ""
    return f" expired on {date:%Y-%m-%d %H:%M:%S} UTC"


def _version(status: os.stat_result) -> FileVersion:
    return FileVersion(status.st_mtime_ns, status.st_ino, status.st_size)


def _is_text(value: str) -> bool:
    """True for PEM text, and for text that was meant to be PEM: errors show a path, but no key."""
    return "-----BEGIN " in value or "\n" in value


def _read(option: str, value: str, versions: dict[str, FileVersion]) -> tuple[str, bytes]:
    """Return the option's name for messages, and its content."""
    if _is_text(value):
        return f"`{option}`", value.encode(errors="replace")
    # It may be a key without its PEM header, in base64, which has no dot.
    shown = "." in value or len(value) < _SHORTEST_KEY
    name = f"`{option}` {value!r}" if shown else f"`{option}`, a text of {len(value)} characters,"
    try:
        with open(value, "rb") as file:
            versions[value] = _version(os.fstat(file.fileno()))
            data = file.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        cause: Exception | None = error if shown else None
        if not shown and isinstance(error, OSError):
            cause = OSError(error.errno, reason)  # without the path
        raise KafkaConfigurationError(f"{name} cannot be read: {reason}") from cause
    if len(data) > _LARGEST_FILE:
        raise KafkaConfigurationError(f"{name} is larger than {_LARGEST_FILE >> 20} MiB")
    return name, data


def _certificates(name: str, data: bytes) -> bytes:
    """Return the certificates of a PEM file without the text between them."""
    blocks = [block[0] for block in _BLOCKS.finditer(data) if block[1].endswith(b"CERTIFICATE")]
    if not blocks:
        raise KafkaConfigurationError(f"{name} has no PEM certificate{_kind(data)}")
    return b"\n".join(blocks) + b"\n"


def _kind(data: bytes) -> str:
    """Return the format of a file without PEM, and how to convert it."""
    if data.startswith(_JKS):
        return (
            ": it is a Java key store; convert it with `keytool -importkeystore -deststoretype "
            "pkcs12` and `openssl pkcs12`"
        )
    if data.startswith(b"\x30"):
        return (
            ": it is PKCS12 or DER; convert it with `openssl pkcs12 -in FILE -out FILE.pem` or "
            "`openssl x509 -inform der`"
        )
    return ""


def _trust(context: ssl.SSLContext, name: str, certificates: str | bytes) -> None:
    try:
        context.load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        raise KafkaConfigurationError(f"{name} has an invalid certificate: {error}") from error


def _load_pair(
    context: ssl.SSLContext, pem: bytes, password: str | bytes | None, name: str, holder: str
) -> None:
    asked = False

    def answer() -> str | bytes:
        nonlocal asked
        asked = True
        return password or ""

    try:
        _load_from_memory(context, pem, answer)
    except (ssl.SSLError, ValueError) as error:
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            text = f"the private key in {holder} does not belong to the certificate in {name}"
        elif asked and not password:
            text = f"the private key in {holder} is encrypted: pass `ssl_password`"
        elif asked:
            text = f"`ssl_password` does not decrypt the private key in {holder}"
        else:
            text = f"the certificate in {name} or the private key in {holder} is invalid: {error}"
        # Without the cause for passwords: its traceback refers to them.
        raise KafkaConfigurationError(text) from (None if asked else error)


def _load_from_memory(
    context: ssl.SSLContext, pem: bytes, password: Callable[[], str | bytes]
) -> None:
    """Load a key and its certificates. OpenSSL reads them from files only, so this makes one that
    only this process (or, without /proc, this user) can read, for as long as it takes."""
    if hasattr(os, "memfd_create") and os.path.exists("/proc/self/fd"):
        descriptor = os.memfd_create("aiokafka_lite")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(pem)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=password)
        finally:
            os.close(descriptor)
        return
    import tempfile  # rarely needed, and slow to import

    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with open(descriptor, "wb") as file:
            file.write(pem)
        context.load_cert_chain(path, password=password)
    finally:
        os.unlink(path)
