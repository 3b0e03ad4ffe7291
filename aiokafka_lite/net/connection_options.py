"""The options of a connection to a broker, checked once, in one value."""

from __future__ import annotations

import math
import re
import ssl
from typing import TYPE_CHECKING, Final

from aiokafka_lite._arguments import wire_string
from aiokafka_lite._backoff import Backoff
from aiokafka_lite._version import __version__
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.net.api_version_cache import KnownBrokers
from aiokafka_lite.net.buffers import ReceiveBuffers

if TYPE_CHECKING:
    from aiokafka_lite.net.authenticate import Mechanism
    from aiokafka_lite.net.route.proxies import Proxy
    from aiokafka_lite.net.tls.tls_contexts import TlsContexts

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LARGEST_INT32: Final = 2**31 - 1


class ConnectionOptions:
    """Options of every connection that a client makes. They never change.

    The arguments are the attributes. They are written out, because a dataclass of this size is slow
    to import.

    Args:
        client_id: Name of this client in the broker's logs, metrics and quotas.
        request_timeout: Seconds until a request without a response fails its whole connection.
        connect_timeout: Seconds for one address to accept a connection, TLS handshake included;
            and for a response from a broker that may be too old for ApiVersions.
        connect_timeout_max: Upper bound in seconds of that time, which doubles with each failed
            attempt (KIP-601).
        connections_max_idle: Seconds without traffic after which a connection is closed; None for
            never. Brokers close theirs after ten minutes by default, so with nine the client
            closes first.
        max_response_bytes: Largest response accepted. A length above it fails the connection
            before memory is allocated. It must be above `fetch_max_bytes`, which a single larger
            batch may exceed.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        ssl_context: The TLS settings; required with SSL and SASL_SSL, and allowed only with them.
        mechanism: The SASL mechanism; required with SASL_PLAINTEXT and SASL_SSL, and allowed only
            there.
        send_buffer_bytes: The socket's send buffer, SO_SNDBUF; None or -1 leaves it to the
            operating system, whose own tuning is better on most networks.
        receive_buffer_bytes: The socket's receive buffer, SO_RCVBUF; None or -1 as above.
        reconnect_backoff: Seconds before a broker is dialed again after a first failure (KIP-580).
        reconnect_backoff_max: Upper bound in seconds of that growing delay.
        rebootstrap_after: Seconds without metadata after which the client bootstraps again
            (KIP-1102); None: never.
        check_identity: True if brokers since 4.4 check that they are the expected ones (KIP-1242).
        proxy: A proxy through which all brokers are reached.
        canonical_bootstrap: True to use the canonical names of the bootstrap addresses (KIP-235).
        api_version: Release of the brokers, such as "0.9": saves the detection of brokers before
            0.10. Brokers since 0.10 always negotiate. None and "auto" detect.
        client_software_name: Name of this library, sent to the broker (KIP-511).
        client_software_version: Its version, likewise.

    Attributes:
        known: Cached facts about brokers; shared by the connections, not a setting.
        buffers: Memory for large responses; shared by the connections, not a setting.

    Raises:
        KafkaConfigurationError: (a ValueError) a value is out of range, or two values contradict
            each other.
        TypeError: A value has the wrong type.
    """

    def __init__(
        self,
        *,
        client_id: str | None = "aiokafka_lite",
        request_timeout: float = 40.0,
        connect_timeout: float = 10.0,
        connect_timeout_max: float = 30.0,
        connections_max_idle: float | None = 540.0,
        max_response_bytes: int = 256 * 1024 * 1024,
        security_protocol: str = "PLAINTEXT",
        ssl_context: ssl.SSLContext | TlsContexts | None = None,
        mechanism: Mechanism | None = None,
        send_buffer_bytes: int | None = None,
        receive_buffer_bytes: int | None = None,
        reconnect_backoff: float = 0.05,
        reconnect_backoff_max: float = 1.0,
        rebootstrap_after: float | None = 300.0,
        check_identity: bool = True,
        proxy: Proxy | None = None,
        canonical_bootstrap: bool = False,
        api_version: str | None = None,
        client_software_name: str = "aiokafka-lite",
        client_software_version: str = __version__,
    ) -> None:
        if client_id is not None:
            wire_string("client_id", client_id)
        _seconds("request_timeout", request_timeout, above_zero=True)
        _seconds("connect_timeout", connect_timeout, above_zero=True)
        _seconds("connect_timeout_max", connect_timeout_max, above_zero=True)
        _seconds("reconnect_backoff", reconnect_backoff)
        _seconds("reconnect_backoff_max", reconnect_backoff_max)
        if connections_max_idle is not None:
            _seconds("connections_max_idle", connections_max_idle, above_zero=True)
        if rebootstrap_after is not None:
            _seconds("rebootstrap_after", rebootstrap_after)
        _bytes("max_response_bytes", max_response_bytes)
        self.client_id: Final = client_id
        self.request_timeout: Final = request_timeout
        self.connect_timeout: Final = min(connect_timeout, connect_timeout_max)
        self.connect_timeout_max: Final = connect_timeout_max
        self.connections_max_idle: Final = connections_max_idle
        self.max_response_bytes: Final = max_response_bytes
        self.security_protocol: Final = _string("security_protocol", security_protocol)
        self.ssl_context: Final = ssl_context
        self.mechanism: Final = mechanism
        self.send_buffer_bytes: Final = _socket_buffer("send_buffer_bytes", send_buffer_bytes)
        self.receive_buffer_bytes: Final = _socket_buffer(
            "receive_buffer_bytes", receive_buffer_bytes
        )
        self.reconnect_backoff: Final = reconnect_backoff
        self.reconnect_backoff_max: Final = reconnect_backoff_max
        self.rebootstrap_after: Final = rebootstrap_after
        self.check_identity: Final = check_identity
        self.proxy: Final = proxy
        self.canonical_bootstrap: Final = canonical_bootstrap
        self.api_version: Final = _release(api_version)
        self.client_software_name: Final = _software("client_software_name", client_software_name)
        self.client_software_version: Final = _software(
            "client_software_version", client_software_version
        )
        self.known: Final = KnownBrokers()
        self.buffers: Final = ReceiveBuffers()
        self._check_security()

    @property
    def tls(self) -> bool:
        """True if connections use TLS."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        """True if connections authenticate with SASL."""
        return self.security_protocol.startswith("SASL_")

    def setup_timeout(self, failures: int) -> float:
        """Return the seconds for one address to accept a connection (KIP-601).

        Networks or brokers that cannot keep up get more time with each attempt, and the jitter
        keeps clients that failed together from coming back together. The first attempt has no
        jitter.

        Args:
            failures: Attempts that failed since the last success.
        """
        if not failures:
            return self.connect_timeout
        return Backoff(self.connect_timeout, self.connect_timeout_max).delay(failures + 1)

    def _check_security(self) -> None:
        if self.security_protocol not in SECURITY_PROTOCOLS:
            raise KafkaConfigurationError(
                f"security_protocol must be one of {', '.join(SECURITY_PROTOCOLS)}, "
                f"not {self.security_protocol!r}"
            )
        if not isinstance(self.ssl_context, ssl.SSLContext | None) and not _is_tls_contexts(
            self.ssl_context
        ):
            raise TypeError(f"ssl_context must be an ssl.SSLContext, not {self.ssl_context!r}")
        if self.tls and self.ssl_context is None:
            raise KafkaConfigurationError(
                f"security_protocol {self.security_protocol} needs an ssl_context"
            )
        if not self.tls and self.ssl_context is not None:
            raise KafkaConfigurationError(
                f"an ssl_context was given, but security_protocol {self.security_protocol} "
                "does not encrypt: the credentials and records would be sent in the clear"
            )
        if self.sasl and self.mechanism is None:
            raise KafkaConfigurationError(
                f"security_protocol {self.security_protocol} needs a SASL mechanism"
            )
        if not self.sasl and self.mechanism is not None:
            raise KafkaConfigurationError(
                f"a SASL mechanism was given, but security_protocol {self.security_protocol} "
                "does not authenticate"
            )


def _is_tls_contexts(value: object) -> bool:
    from aiokafka_lite.net.tls.tls_contexts import TlsContexts  # only TLS needs it

    return isinstance(value, TlsContexts)


def _string(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {value!r}")
    return value


def _release(value: str | None) -> str | None:
    if value is None or _string("api_version", value) == "auto":
        return None
    if not re.fullmatch(r"\d+(\.\d+){0,3}", value):
        raise KafkaConfigurationError(
            f'api_version must be "auto" or a release such as "0.9", not {value!r}'
        )
    return value


def _software(name: str, value: str) -> str:
    # The names and versions of KIP-511; brokers answer others with INVALID_REQUEST.
    letters = _string(name, value).replace("-", "").replace(".", "")
    ends = value[:1] + value[-1:]
    if not (letters.isalnum() and ends.isalnum() and value.isascii()):
        raise KafkaConfigurationError(
            f"{name} must consist of letters, digits, '-' and '.', and begin and end with "
            f"a letter or digit, not {value!r}"
        )
    return value


def _socket_buffer(name: str, value: int | None) -> int | None:
    if value is None or value == -1:
        return None
    _bytes(name, value)
    return value


def _seconds(name: str, value: object, above_zero: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    if not math.isfinite(value) or value < 0 or (above_zero and value == 0):
        bound = "> 0" if above_zero else ">= 0"
        raise KafkaConfigurationError(f"{name} must be {bound} seconds, not {value!r}")


def _bytes(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a number of bytes, not {value!r}")
    if not 1 <= value <= LARGEST_INT32:
        raise KafkaConfigurationError(
            f"{name} must be between 1 and {LARGEST_INT32} bytes, not {value!r}"
        )
