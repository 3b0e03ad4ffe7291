"""A proxy and its handshake, without I/O.

A handshake is a generator: it yields bytes to send, or the number of bytes that it needs next.

Source: RFC 1928 and RFC 1929 (SOCKS5), RFC 9110 section 9.3.6 (CONNECT), RFC 7617 (Basic).
"""

import base64
import ssl
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaConfigurationError,
    KafkaConnectionError,
)

Handshake: TypeAlias = Generator[bytes | int, bytes, None]

PORTS: Final = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
"""The default port of each scheme."""

LONGEST_HEAD: Final = 16 * 1024
"""Bytes of an HTTP proxy's answer."""

_NO_AUTHENTICATION: Final = 0
_PASSWORD: Final = 2
_DOMAIN: Final = 3
_REPLIES: Final = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy between the client and the brokers. It resolves their names.

    Attributes:
        scheme: "socks5", "http" or "https"; with "https", the connection to the proxy is encrypted.
        username, password: The credentials, or None.
        ssl_context: For "https"; None for one that trusts the system's authorities.
    """

    scheme: str
    host: str
    port: int
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    ssl_context: ssl.SSLContext | None = field(default=None, repr=False)

    @property
    def tls(self) -> bool:
        """True if the connection to the proxy uses TLS."""
        return self.scheme == "https"

    def handshake(self, host: str, port: int) -> Handshake:
        """Return the handshake that asks for a connection to a broker."""
        if self.scheme == "socks5":
            return _socks5(self, host, port)
        return _http_connect(self, host, port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_proxy(url: object, ssl_context: object = None) -> Proxy:
    """Return the proxy of a `proxy_url` such as "socks5://user:password@proxy.example:1080".

    Args:
        url: The `proxy_url`.
        ssl_context: The `proxy_ssl_context`.

    Raises:
        TypeError: The URL is not a str, or the context not an SSLContext.
        KafkaConfigurationError: The URL is not valid (the message does not show it, because it may
            contain a password), or the proxy does not use the context.
    """
    if not isinstance(url, str):
        raise TypeError(f"`proxy_url` should be a str, not {type(url).__name__}")
    if ssl_context is not None and not isinstance(ssl_context, ssl.SSLContext):
        raise TypeError(f"`proxy_ssl_context` should be an ssl.SSLContext, not {ssl_context!r}")
    from urllib.parse import unquote, urlsplit  # slow to import, and few clients have a proxy

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _invalid("its host or port is not valid") from None
    if parts.scheme not in PORTS:
        raise _invalid(f"its scheme should be one of {', '.join(PORTS)}")
    if not host or (parts.path not in ("", "/")) or parts.query or parts.fragment or port == 0:
        raise _invalid("write SCHEME://[USER:PASSWORD@]HOST[:PORT]")
    username = None if parts.username is None else unquote(parts.username)
    password = None if username is None else unquote(parts.password or "")
    scheme = "socks5" if parts.scheme == "socks5h" else parts.scheme
    if ssl_context is not None and scheme != "https":
        raise KafkaConfigurationError(
            f"`proxy_ssl_context` requires an https:// proxy: the connection to an {scheme}:// "
            "proxy is not encrypted"
        )
    if scheme == "socks5" and username is not None and password is not None:
        for text in (username, password):
            if not 0 < len(text.encode(errors="replace")) < 256:
                raise _invalid("SOCKS5 takes a user and a password of 1 to 255 bytes")
    if username is not None and ":" in username:
        raise _invalid("the user name contains a colon")
    return Proxy(scheme, host, port or PORTS[parts.scheme], username, password, ssl_context)


def _invalid(why: str) -> KafkaConfigurationError:
    return KafkaConfigurationError(f"`proxy_url` is not valid: {why}")


def _socks5(proxy: Proxy, host: str, port: int) -> Handshake:
    methods = [_NO_AUTHENTICATION]
    if proxy.username is not None:
        methods.append(_PASSWORD)
    yield bytes([5, len(methods), *methods])
    version, method = yield 2
    if version != 5:
        raise _no_proxy(proxy)
    if method == _PASSWORD and proxy.username is not None:
        name = proxy.username.encode(errors="replace")
        secret = (proxy.password or "").encode(errors="replace")
        yield bytes([1, len(name)]) + name + bytes([len(secret)]) + secret
        _, status = yield 2
        if status:
            raise AuthenticationFailedError(f"the proxy {proxy} refused its user or password")
    elif method != _NO_AUTHENTICATION:
        missing = "" if proxy.username else ": add them to `proxy_url`"
        raise AuthenticationFailedError(
            f"the proxy {proxy} accepts neither connections without credentials nor a user and "
            f"password{missing}"
        )
    yield b"\5\1\0" + _address(proxy, host) + port.to_bytes(2, "big")
    version, reply, _, kind = yield 4
    if version != 5:
        raise _no_proxy(proxy)
    if reply:
        reason = _REPLIES.get(reply, f"error {reply}")
        raise KafkaConnectionError(f"the proxy {proxy} cannot connect to {host}:{port}: {reason}")
    if kind == _DOMAIN:
        [length] = yield 1
    elif kind in (1, 4):
        length = 4 if kind == 1 else 16
    else:
        raise _no_proxy(proxy)
    yield length + 2  # the proxy's own address, which is not needed


def _address(proxy: Proxy, host: str) -> bytes:
    """The broker's address as SOCKS5 encodes it: IPv4, IPv6, or a name that the proxy resolves."""
    import ipaddress

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = _name(host)
        if len(name) > 255:
            raise KafkaConnectionError(
                f"the name {host[:50]!r}... is too long for the proxy {proxy}"
            ) from None
        return bytes([_DOMAIN, len(name)]) + name
    return bytes([1 if address.version == 4 else 4]) + address.packed


def _name(host: str) -> bytes:
    """Encode the name of a broker for a proxy, which resolves it.

    Raises:
        KafkaConnectionError: It is not a host name. Names come from metadata, so a broker may send
            one that would change the request to the proxy.
    """
    try:
        name = host.encode() if host.isascii() else host.encode("idna")
    except UnicodeError:
        name = b""
    if not name or any(byte <= 0x20 or byte == 0x7F for byte in name):
        raise KafkaConnectionError(f"{host[:50]!r} is not a host name")
    return name


def _http_connect(proxy: Proxy, host: str, port: int) -> Handshake:
    name = _name(host).decode()
    target = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
    head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
    if proxy.username is not None:
        credentials = f"{proxy.username}:{proxy.password}".encode(errors="replace")
        head += f"Proxy-Authorization: Basic {base64.b64encode(credentials).decode()}\r\n"
    yield f"{head}\r\n".encode()
    answer = bytearray()
    while not answer.endswith(b"\r\n\r\n"):
        # A byte at a time, because what follows the head belongs to the broker.
        answer += yield 1
        if len(answer) > LONGEST_HEAD or not b"HTTP/".startswith(answer[:5]):
            raise _no_proxy(proxy)
    status_line = bytes(answer.partition(b"\r\n")[0]).decode("latin-1")
    status = status_line.partition(" ")[2]
    if not status[:3].isdecimal():
        raise _no_proxy(proxy)
    if status.startswith("2"):
        return
    if status.startswith("407"):
        hint = "refused its user or password" if proxy.username else "requires a user and password"
        raise AuthenticationFailedError(f"the proxy {proxy} {hint} (`proxy_url`)")
    text = "".join(each if each.isprintable() else "?" for each in status[:100])
    raise KafkaConnectionError(f"the proxy {proxy} cannot connect to {host}:{port}: {text}")


def _no_proxy(proxy: Proxy) -> KafkaConnectionError:
    kind = "a SOCKS5" if proxy.scheme == "socks5" else "an HTTP"
    return KafkaConnectionError(f"{proxy} does not answer like {kind} proxy: check `proxy_url`")
