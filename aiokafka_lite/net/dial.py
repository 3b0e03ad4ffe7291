"""Connects a socket to a host: tries every address, sets socket options, starts TLS."""

import asyncio
import logging
import os
import socket
import ssl
from typing import Any, Final, TypeAlias

from aiokafka_lite._threads import NoThreadError, lookup_threads
from aiokafka_lite.errors import KafkaConnectionError
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.tls.tls_contexts import TlsContexts
from aiokafka_lite.net.tls.tls_failures import explained, refused, untrusted

log = logging.getLogger(__name__)

_AddressInfo: TypeAlias = tuple[int, int, int, str, Any]
"""An entry of getaddrinfo: family, type, protocol, canonical name, address."""

TLS_CLOSING_TIME: Final = 1.0
"""Seconds for the TLS shutdown; the transport gives up after twice that."""


async def dial(
    host: str, port: int, options: ConnectionOptions, protocol: asyncio.BaseProtocol
) -> None:
    """Connect a socket, with TLS if configured, to the first address of a host that accepts.

    Args:
        host: Name or address; TLS checks the certificate against it.
        port: TCP port.
        options: `connect_timeout` applies to each address separately.
        protocol: Receives the connected socket.

    Raises:
        KafkaConnectionError: No address accepted; the message has the error of each.
        AuthenticationFailedError: The broker's certificate is not trusted, or the broker refuses
            this client's.

    Cancellation: gives up the attempt and closes its socket.
    """
    failures = []
    for info in await resolve(host, port, options.connect_timeout):
        address = info[4]
        try:
            await _connect(host, info, options, protocol)
            return
        except ssl.SSLCertVerificationError as error:
            raise untrusted(host, port, error) from error
        except OSError as error:
            refusal = refused(f"{host}:{port}", error, expired_certificate(options))
            if refusal is not None:
                raise refusal from error
            # TimeoutError and ssl.SSLError are OSErrors, too.
            log.debug("%s: cannot connect to %s (%s): %r", options.client_id, host, address, error)
            failures.append((address, error))
    raise KafkaConnectionError(
        f"cannot connect to {host}:{port}: "
        + "; ".join(
            ("" if address[0] == host else f"{address[0]}: ") + _reason(error, options)
            for address, error in failures
        )
    ) from failures[-1][1]


async def resolve(host: str, port: int, timeout: float) -> list[_AddressInfo]:
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
        reason = f"no answer within {timeout:g} s" if timed_out else error
        raise KafkaConnectionError(f"cannot resolve {host!r}: {reason}") from error
    if not infos:
        raise KafkaConnectionError(f"cannot resolve {host!r}: the name has no address")
    return infos


def _look_up(host: str, port: int) -> list[_AddressInfo]:
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


async def _connect(
    host: str,
    info: _AddressInfo,
    options: ConnectionOptions,
    protocol: asyncio.BaseProtocol,
) -> None:
    loop = asyncio.get_running_loop()
    context = options.ssl_context
    family, kind, number, _, address = info
    async with asyncio.timeout(options.connect_timeout):
        if isinstance(context, TlsContexts):
            context = await context.current()
        connected = socket.socket(family, kind, number)
        try:
            connected.setblocking(False)
            _set_options(connected, options)
            await loop.sock_connect(connected, address)
        except BaseException:
            connected.close()
            raise
        # From here on the event loop owns the socket, and closes it if this fails.
        if not options.tls:
            await loop.create_connection(lambda: protocol, sock=connected)
            return
        await loop.create_connection(
            lambda: protocol,
            sock=connected,
            ssl=context,
            server_hostname=host,
            ssl_handshake_timeout=options.connect_timeout,
            ssl_shutdown_timeout=TLS_CLOSING_TIME,
        )


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
    return context.own_expiry if isinstance(context, TlsContexts) else ""


def _breaks_off(error: OSError) -> bool:
    """True if a TLS handshake failed as with a server that does not speak TLS."""
    if isinstance(error, ssl.SSLError):
        return isinstance(error, ssl.SSLEOFError) or error.reason == "WRONG_VERSION_NUMBER"
    return isinstance(error, ConnectionResetError | BrokenPipeError)


def _reason(error: OSError, options: ConnectionOptions) -> str:
    if isinstance(error, TimeoutError) and not error.args:
        return f"no answer within {options.connect_timeout:g} s"
    if isinstance(error, ssl.SSLError) and (text := explained(error)) is not None:
        return text
    if options.tls and _breaks_off(error):
        return (
            "the other side broke off the TLS handshake, as a listener without TLS does: check "
            f"security_protocol, which is {options.security_protocol}; a listener that requires a "
            "client certificate may do so, too"
        )
    if error.errno is not None and not isinstance(error, ssl.SSLError):
        # asyncio's own text names the system call and the address, not what happened.
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
