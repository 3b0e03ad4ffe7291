"""Parses the bootstrap list: the addresses used at startup and when rebootstrapping (KIP-899)."""

from __future__ import annotations

from collections.abc import Iterable

from aiokafka_lite.errors import KafkaConfigurationError

DEFAULT_PORT = 9092


def parse_bootstrap(
    servers: str | Iterable[str | tuple[str, int]],
) -> list[tuple[str, int]]:
    """Parse the `bootstrap_servers` option.

    Args:
        servers: "host:port,host:port", or a sequence of "host:port" or (host, port). The default
            port is 9092; an IPv6 address with a port needs brackets: "[::1]:9092".

    Returns:
        (host, port) pairs in the order given, without duplicates.

    Raises:
        TypeError: `servers` is neither a str nor a collection of str and (host, port).
        KafkaConfigurationError: There is no address, a host is empty, or a port is not 1 to 65535.
    """
    entries: list[str | tuple[str, int]] = []
    for entry in _each(servers):
        if isinstance(entry, str):
            entries.extend(part.strip() for part in entry.split(",") if part.strip())
        elif isinstance(entry, tuple | list) and len(entry) == 2 and isinstance(entry[0], str):
            entries.append((entry[0], entry[1]))
        else:
            raise TypeError(f"`bootstrap_servers`: {entry!r} is neither a str nor (host, port)")
    addresses = dict.fromkeys(_address(entry) for entry in entries)
    if not addresses:
        raise KafkaConfigurationError(
            f'bootstrap_servers={servers!r} contains no address: pass "host:port"'
        )
    return list(addresses)


def _each(servers: object) -> Iterable[object]:
    if isinstance(servers, str):
        return [servers]
    if isinstance(servers, bytes | bytearray) or not isinstance(servers, Iterable):
        raise TypeError(f"`bootstrap_servers` should be a str or a list of str, not {servers!r}")
    return servers


def _address(entry: str | tuple[str, int]) -> tuple[str, int]:
    if isinstance(entry, str):
        scheme, found, rest = entry.partition("://")
        if found:
            raise KafkaConfigurationError(
                f"bootstrap_servers: {entry!r} begins with the scheme {scheme}://, but Kafka's "
                f"addresses have none: write {rest!r}, and choose TLS or SASL with "
                "security_protocol"
            )
        host, port = _split(entry)
    else:
        host, port = entry[0], str(entry[1])
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise KafkaConfigurationError(
            f"bootstrap_servers: {entry!r} is not host:port with a port of 1 to 65535"
        )
    try:
        if not _is_plain(host):
            host.encode("idna")  # as the resolver does
    except UnicodeError as error:
        raise KafkaConfigurationError(
            f"bootstrap_servers: {entry!r} has an invalid host name: {error}"
        ) from None
    return host, int(port)


def _is_plain(host: str) -> bool:
    """True if the idna codec would not change the host: its import takes milliseconds."""
    labels = host.removesuffix(".").split(".")
    return host.isascii() and all(0 < len(label) < 64 for label in labels)


def _split(entry: str) -> tuple[str, str]:
    """Host and port as text, with the default port if the entry has none."""
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        return host, rest.removeprefix(":") if rest else str(DEFAULT_PORT)
    if entry.count(":") > 1:  # a bare IPv6 address: its last group cannot be a port
        from ipaddress import IPv6Address

        try:
            IPv6Address(entry)
        except ValueError:
            return "", ""  # neither IPv6 nor host:port
        return entry, str(DEFAULT_PORT)
    host, colon, port = entry.partition(":")
    return host, port if colon else str(DEFAULT_PORT)
