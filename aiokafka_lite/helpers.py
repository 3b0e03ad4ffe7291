"""aiokafka's public `create_ssl_context`: the way to a TLS context from file names."""

import ssl
from collections.abc import Callable
from os import PathLike

__all__ = ["create_ssl_context"]

_Path = str | bytes | PathLike[str] | PathLike[bytes]
_Bytes = bytes | bytearray | memoryview


def create_ssl_context(
    *,
    cafile: _Path | None = None,
    capath: _Path | None = None,
    cadata: str | _Bytes | None = None,
    certfile: _Path | None = None,
    keyfile: _Path | None = None,
    password: Callable[[], str | bytes | bytearray] | str | bytes | bytearray | None = None,
) -> ssl.SSLContext:
    """A client's TLS context that verifies the broker's certificate and its host name.

    Args:
        cafile: PEM file with the certificates that may sign a broker's. Without any of `cafile`,
            `capath` and `cadata` the system's own are used.
        capath: Directory of such certificates, as `SSLContext.load_verify_locations` takes it.
        cadata: Such certificates themselves: PEM as text, DER as bytes.
        certfile: PEM file with this client's certificate chain, for mutual TLS.
        keyfile: PEM file with its private key; by default it is in `certfile`.
        password: Opens an encrypted key. Without it OpenSSL asks at the terminal.

    Raises:
        OSError: A file that cannot be read; `ssl.SSLError` (an OSError) for what is no
            certificate or key, or a key that does not fit.
        ValueError: A `keyfile` without a `certfile`.
    """
    if keyfile is not None and certfile is None:
        raise ValueError("keyfile was given without the certfile that it belongs to")
    context = ssl.create_default_context(
        ssl.Purpose.SERVER_AUTH, cafile=cafile, capath=capath, cadata=cadata
    )
    if certfile is not None:
        context.load_cert_chain(certfile, keyfile, password)
    return context
