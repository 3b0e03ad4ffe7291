"""Connects a socket to a host: tries every address, sets socket options, starts TLS."""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Iterable
from typing import Final

from aiokafka_lite._threads import NoThreadError, lookup_threads
from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.route.racing import AddressInfo, Race, interleaved
from aiokafka_lite.net.tls.tls_failures import explained, refused, untrusted

log = logging.getLogger(__name__)

TLS_CLOSING_TIME: Final = 1.0
"""Seconds for the TLS shutdown; the transport gives up after twice that."""


async def dial(
    host: str,
    port: int,
    options: ConnectionOptions,
    protocol: asyncio.BaseProtocol,
    *,
    timeout: float | None = None,
) -> None:
    """Connect a socket, through a proxy and with TLS if configured, to a host.

    The addresses of the host are tried with a short delay between them, and the first that accepts
    is used; if TLS or the proxy's handshake fails there, the others follow. With a proxy, these are
    the proxy's addresses, and the proxy resolves the host.

    Args:
        host: Name or address; TLS checks the certificate against it.
        port: TCP port.
        options: The connection's options.
        protocol: Receives the connected socket.
        timeout: Seconds for each address separately, and then for the proxy's handshake and TLS
            together; None: the option `connect_timeout`.

    Raises:
        KafkaConnectionError: No address accepted; the message has the error of each.
        AuthenticationFailedError: The broker's certificate is not trusted, the broker refuses this
            client's, or the proxy refuses the credentials.

    Cancellation: abandons the attempt and closes its socket.
    """
    proxy = options.proxy
    there = (host, port) if proxy is None else (proxy.host, proxy.port)
    timeout = options.connect_timeout if timeout is None else timeout
    infos = await resolve(*there, timeout)
    race = Race(
        interleaved(infos, options.known.misses(host, port)),
        lambda info: _connect(info, options, timeout),
    )
    while (winner := await race.winner()) is not None:
        (_, _, _, _, address), connected = winner
        try:
            async with asyncio.timeout(timeout):
                await _use(connected, host, port, options, protocol, timeout)
            return
        except ssl.SSLCertVerificationError as error:
            raise untrusted(host, port, error) from error
        except OSError as error:
            refusal = refused(f"{host}:{port}", error, expired_certificate(options))
            if refusal is not None:
                raise refusal from error
            # TimeoutError and ssl.SSLError are OSErrors, too.
            race.failures.append((address, error))
        except KafkaConnectionError as error:  # from the proxy; another address may work
            race.failures.append((address, error))
    last = race.failures[-1][1]
    if isinstance(last, KafkaConnectionError) and len(race.failures) == 1:
        raise last
    for address, failure in race.failures:
        log.debug("%s: cannot connect to %s (%s): %r", options.client_id, host, address, failure)
    way = "" if proxy is None else f" through the proxy {proxy}"
    raise KafkaConnectionError(
        f"cannot connect to {host}:{port}{way}: "
        + "; ".join(
            ("" if address[0] == there[0] else f"{address[0]}: ")
            + _reason(failure, options, timeout)
            for address, failure in race.failures
        )
    ) from last


async def resolve(host: str, port: int, timeout: float) -> list[AddressInfo]:
    """Return the addresses of a host, in the system's order of preference.

    Raises:
        KafkaConnectionError: There is none, or the lookup took longer than `timeout` seconds.
    """
    try:
        # This only parses the text, so it does not block; it raises for a name.
        return list(
            socket.getaddrinfo(
                # A str would be encoded by the idna codec, which takes milliseconds to import.
                host.encode() if host.isascii() else host,
                port,
                type=socket.SOCK_STREAM,
                flags=socket.AI_NUMERICHOST,
            )
        )
    except (OSError, UnicodeError):
        pass
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout):
            infos = await lookup_threads.run(loop, _look_up, host, port)
    except (OSError, UnicodeError, NoThreadError) as error:
        timed_out = isinstance(error, TimeoutError)
        reason = f"no answer within {timeout:.3g} s" if timed_out else error
        raise KafkaConnectionError(f"cannot resolve {host!r}: {reason}") from error
    if not infos:
        raise KafkaConnectionError(f"cannot resolve {host!r}: the name has no address")
    return infos


async def canonical_addresses(
    addresses: Iterable[tuple[str, int]], timeout: float
) -> list[tuple[str, int]]:
    """Return each address of the bootstrap names by its canonical name (KIP-235).

    Kerberos needs the names of the brokers themselves. A name that cannot be looked up stays as it
    is.

    Args:
        addresses: The bootstrap list.
        timeout: Seconds for each lookup.
    """
    found: dict[tuple[str, int], None] = {}
    loop = asyncio.get_running_loop()
    for host, port in addresses:
        try:
            infos = await resolve(host, port, timeout)
            async with asyncio.timeout(timeout):
                for info in infos:
                    name = await lookup_threads.run(loop, _canonical_name, info[4])
                    found[name, port] = None
        except (OSError, KafkaConnectionError, NoThreadError) as error:
            log.warning("cannot find the canonical name of bootstrap address %s: %s", host, error)
            found[host, port] = None
    return list(found)


def _canonical_name(address: tuple[str, int]) -> str:
    return socket.getnameinfo(address, 0)[0]


def _look_up(host: str, port: int) -> list[AddressInfo]:
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


async def _connect(info: AddressInfo, options: ConnectionOptions, timeout: float) -> socket.socket:
    family, kind, number, _, address = info
    connected = socket.socket(family, kind, number)
    try:
        connected.setblocking(False)
        _set_options(connected, options)
        async with asyncio.timeout(timeout):
            await asyncio.get_running_loop().sock_connect(connected, address)
    except BaseException:
        connected.close()
        raise
    return connected


async def _use(
    connected: socket.socket,
    host: str,
    port: int,
    options: ConnectionOptions,
    protocol: asyncio.BaseProtocol,
    timeout: float,
) -> None:
    """Give a connected socket to a protocol, after the proxy's handshake and TLS."""
    loop = asyncio.get_running_loop()
    context = options.ssl_context
    proxy = options.proxy
    try:
        if not isinstance(context, ssl.SSLContext | None):
            context = await context.current()
        if proxy is not None and not proxy.tls:
            from aiokafka_lite.net.route.tunnel import open_tunnel  # few clients have a proxy

            await open_tunnel(connected, proxy, host, port)
    except BaseException:
        connected.close()
        raise
    # From here on the event loop owns the socket, and closes it if this fails.
    if proxy is not None and proxy.tls:
        await _use_encrypted(connected, host, port, options, context, protocol, timeout)
    elif context is None:
        await loop.create_connection(lambda: protocol, sock=connected)
    else:
        await loop.create_connection(
            lambda: protocol,
            sock=connected,
            ssl=context,
            server_hostname=host,
            ssl_handshake_timeout=timeout,
            ssl_shutdown_timeout=TLS_CLOSING_TIME,
        )


async def _use_encrypted(
    connected: socket.socket,
    host: str,
    port: int,
    options: ConnectionOptions,
    context: ssl.SSLContext | None,
    protocol: asyncio.BaseProtocol,
    timeout: float,
) -> None:
    """As above, through an HTTPS proxy."""
    from aiokafka_lite.net.route.tunnel import open_encrypted_tunnel

    loop = asyncio.get_running_loop()
    if options.proxy is None:
        raise ValueError("there is no proxy")
    try:
        tunnel = await open_encrypted_tunnel(connected, options.proxy, host, port, timeout)
    except ssl.SSLCertVerificationError as error:
        raise AuthenticationFailedError(
            f"the certificate of the proxy {options.proxy} is not trusted: "
            f"{error.verify_message}; pass a context that trusts it as `proxy_ssl_context`"
        ) from error
    try:
        if context is None:
            tunnel.set_protocol(protocol)
            protocol.connection_made(tunnel)
            return
        encrypted = await loop.start_tls(
            tunnel,
            protocol,
            context,
            server_hostname=host,
            ssl_handshake_timeout=timeout,
            ssl_shutdown_timeout=TLS_CLOSING_TIME,
        )
        if encrypted is None:
            raise ConnectionResetError("the proxy closed the connection")
        protocol.connection_made(encrypted)
    except BaseException:
        tunnel.abort()
        raise


def _set_options(unconnected: socket.socket, options: ConnectionOptions) -> None:
    # Requests are small and wait for responses: never delay one to join it with the next.
    unconnected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    unconnected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Before connecting, because that negotiates the window scale.
    if options.send_buffer_bytes is not None:
        unconnected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
    if options.receive_buffer_bytes is not None:
        unconnected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)


def expired_certificate(options: ConnectionOptions) -> str:
    """The text " expired on DATE" if this client's certificate has expired, else ""."""
    context = options.ssl_context
    return "" if isinstance(context, ssl.SSLContext | None) else context.own_expiry


def _breaks_off(error: OSError) -> bool:
    """True if a TLS handshake failed in the way it does with a server that does not use TLS."""
    if isinstance(error, ssl.SSLError):
        return isinstance(error, ssl.SSLEOFError) or error.reason == "WRONG_VERSION_NUMBER"
    return isinstance(error, ConnectionResetError | BrokenPipeError)


def _reason(
    error: OSError | KafkaConnectionError, options: ConnectionOptions, timeout: float
) -> str:
    if isinstance(error, KafkaConnectionError):
        return str(error.args[0])
    if isinstance(error, TimeoutError) and not error.args:
        return f"no answer within {timeout:.3g} s"
    if isinstance(error, ssl.SSLError) and (text := explained(error)) is not None:
        return text
    if options.tls and _breaks_off(error):
        return (
            "the other side aborted the TLS handshake, as a listener without TLS does: check "
            f"security_protocol, which is {options.security_protocol}; a listener that requires a "
            "client certificate may do so too"
        )
    if error.errno is not None and not isinstance(error, ssl.SSLError):
        # asyncio's own text names the system call and the address, but not the cause.
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
