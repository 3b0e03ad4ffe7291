"""aiokafka's public `create_ssl_context`, which builds a TLS context from file names."""

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
    """Return a client's TLS context that verifies the broker's certificate and host name.

    Args:
        cafile: PEM file with the trusted CA certificates. Without any of `cafile`, `capath` and
            `cadata` the system's certificates are used.
        capath: Directory of CA certificates, as `SSLContext.load_verify_locations` takes it.
        cadata: The CA certificates themselves: PEM as str, DER as bytes.
        certfile: PEM file with this client's certificate chain, for mutual TLS.
        keyfile: PEM file with the client's private key; by default it is in `certfile`.
        password: Decrypts the private key. Without it OpenSSL prompts at the terminal.

    Raises:
        OSError: A file cannot be read. `ssl.SSLError` (an OSError): a file holds no certificate
            or key, or the key does not match the certificate.
        ValueError: `keyfile` is set without `certfile`.
    """
    if keyfile is not None and certfile is None:
        raise ValueError("`keyfile` requires `certfile`, the certificate that belongs to the key")
    context = ssl.create_default_context(
        ssl.Purpose.SERVER_AUTH, cafile=cafile, capath=capath, cadata=cadata
    )
    if certfile is not None:
        context.load_cert_chain(certfile, keyfile, password)
    return context
