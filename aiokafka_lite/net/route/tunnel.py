"""Carries out a proxy's handshake on a connected socket.

An HTTPS proxy needs two layers of TLS: the connection to the proxy is a transport, and the broker's
TLS runs inside it.
"""

import asyncio
import socket
import ssl

from aiokafka_lite.errors import KafkaConnectionError
from aiokafka_lite.net.route.proxies import Handshake, Proxy

MOST_READ = 64 * 1024


async def open_tunnel(connected: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Make the proxy connect to a broker; then the socket carries the broker's bytes.

    Raises:
        AuthenticationFailedError: The proxy refuses the credentials.
        KafkaConnectionError: It cannot connect to the broker, or is not a proxy.
        OSError: The connection to the proxy broke.

    Cancellation: leaves the socket in the middle of the handshake: close it.
    """
    loop = asyncio.get_running_loop()

    async def receive(count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = await loop.sock_recv(connected, count - len(data))
            if not piece:
                raise hung_up(proxy)
            data += piece
        return data

    handshake = proxy.handshake(host, port)
    wanted = next(handshake, None)
    while wanted is not None:
        if isinstance(wanted, bytes):
            await loop.sock_sendall(connected, wanted)
            wanted = advance(handshake, b"")
        else:
            wanted = advance(handshake, await receive(wanted))


async def open_encrypted_tunnel(
    connected: socket.socket, proxy: Proxy, host: str, port: int, timeout: float
) -> asyncio.Transport:
    """The same over TLS; return the transport that carries the broker's bytes.

    The proxy's context, or by default the system's authorities, must trust its certificate.

    Raises, Cancellation: As in `open_tunnel`; the socket belongs to the transport.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(MOST_READ, loop)
    transport, _ = await loop.create_connection(
        lambda: asyncio.StreamReaderProtocol(reader, loop=loop),
        sock=connected,
        ssl=proxy.ssl_context or ssl.create_default_context(),
        server_hostname=proxy.host,
        ssl_handshake_timeout=timeout,
    )
    try:
        handshake = proxy.handshake(host, port)
        wanted = next(handshake, None)
        while wanted is not None:
            if isinstance(wanted, bytes):
                transport.write(wanted)
                wanted = advance(handshake, b"")
            else:
                wanted = advance(handshake, await reader.readexactly(wanted))
    except asyncio.IncompleteReadError:
        transport.abort()
        raise hung_up(proxy) from None
    except BaseException:
        transport.abort()
        raise
    return transport


def advance(handshake: Handshake, data: bytes) -> bytes | int | None:
    """Pass received bytes on; return what the handshake wants next, None at its end."""
    try:
        return handshake.send(data)
    except StopIteration:
        return None


def hung_up(proxy: Proxy) -> KafkaConnectionError:
    return KafkaConnectionError(
        f"the proxy {proxy} closed the connection during its handshake: check `proxy_url`"
    )
