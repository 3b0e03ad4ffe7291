"""Turns the connection arguments that all clients share into `ConnectionOptions`.

Modules that only some connections use (TLS options, proxies) are imported when they are needed.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from os import PathLike
from typing import TYPE_CHECKING, Final

from aiokafka_lite import _arguments
from aiokafka_lite._arguments import INT64, milliseconds, size
from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.sasl import choose

if TYPE_CHECKING:
    from aiokafka_lite.net.aws.aws_credentials import AwsCredentials, CredentialSource
    from aiokafka_lite.net.route.proxies import Proxy
    from aiokafka_lite.net.tls.tls_contexts import TlsContexts

DNS_LOOKUPS: Final = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
_TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")


def connection_options(
    *,
    client_id: str | None,
    request_timeout: float,
    connections_max_idle_ms: float | None,
    security_protocol: str,
    ssl_context: ssl.SSLContext | None,
    sasl_mechanism: str | None,
    sasl_plain_username: str | None,
    sasl_plain_password: str | None,
    sasl_kerberos_service_name: str | None,
    sasl_kerberos_domain_name: str | None,
    sasl_oauth_token_provider: AbstractTokenProvider | None,
    sasl_kerberos_principal: str | None = None,
    sasl_kerberos_keytab: str | PathLike[str] | None = None,
    sasl_kerberos_cache: str | None = None,
    sasl_scram_tokenauth: bool = False,
    sasl_aws_credentials: AwsCredentials | CredentialSource | None = None,
    sasl_aws_region: str | None = None,
    ssl_cafile: str | PathLike[str] | None = None,
    ssl_cadata: str | bytes | None = None,
    ssl_certfile: str | PathLike[str] | None = None,
    ssl_keyfile: str | PathLike[str] | None = None,
    ssl_password: str | bytes | None = None,
    ssl_check_hostname: bool = True,
    ssl_ciphers: str | None = None,
    ssl_enabled_protocols: str | Iterable[str] = _TLS_VERSIONS,
    proxy_url: str | None = None,
    proxy_ssl_context: ssl.SSLContext | None = None,
    client_dns_lookup: str = "use_all_dns_ips",
    metadata_recovery_strategy: str = "rebootstrap",
    metadata_recovery_rebootstrap_trigger_ms: float = 300_000,
    metadata_cluster_check_enable: bool = True,
    max_response_bytes: int = 256 * 1024 * 1024,
    reconnect_backoff_ms: float = 50,
    reconnect_backoff_max_ms: float = 1000,
    socket_connection_setup_timeout_ms: float = 10_000,
    socket_connection_setup_timeout_max_ms: float = 30_000,
    send_buffer_bytes: int = -1,
    receive_buffer_bytes: int = -1,
) -> ConnectionOptions:
    """Return the options of a client's connections.

    Args:
        request_timeout: Seconds, already checked.
        max_response_bytes: Largest response accepted.

    The others are a client's own arguments, unchecked.

    Raises:
        ValueError, TypeError: An argument is invalid; with aiokafka's message if it has one.
    """
    context = _tls(
        client_id,
        security_protocol,
        ssl_context,
        {
            "ssl_cafile": ssl_cafile,
            "ssl_cadata": ssl_cadata,
            "ssl_certfile": ssl_certfile,
            "ssl_keyfile": ssl_keyfile,
            "ssl_password": ssl_password,
            "ssl_check_hostname": ssl_check_hostname,
            "ssl_ciphers": ssl_ciphers,
            "ssl_enabled_protocols": ssl_enabled_protocols,
        },
    )
    mechanism = choose(
        security_protocol,
        {
            "sasl_mechanism": sasl_mechanism,
            "sasl_plain_username": sasl_plain_username,
            "sasl_plain_password": sasl_plain_password,
            "sasl_kerberos_service_name": sasl_kerberos_service_name,
            "sasl_kerberos_domain_name": sasl_kerberos_domain_name,
            "sasl_kerberos_principal": sasl_kerberos_principal,
            "sasl_kerberos_keytab": sasl_kerberos_keytab,
            "sasl_kerberos_cache": sasl_kerberos_cache,
            "sasl_scram_tokenauth": sasl_scram_tokenauth,
            "sasl_aws_credentials": sasl_aws_credentials,
            "sasl_aws_region": sasl_aws_region,
            "sasl_oauth_token_provider": sasl_oauth_token_provider,
        },
    )
    if metadata_recovery_strategy not in ("rebootstrap", "none"):
        raise KafkaConfigurationError(
            "`metadata_recovery_strategy` should be 'rebootstrap' or 'none', not "
            f"{metadata_recovery_strategy!r}"
        )
    if not isinstance(metadata_cluster_check_enable, bool):
        raise TypeError(
            "`metadata_cluster_check_enable` should be a bool, not "
            f"{metadata_cluster_check_enable!r}"
        )
    if client_dns_lookup not in DNS_LOOKUPS:
        raise KafkaConfigurationError(
            f"`client_dns_lookup` should be {' or '.join(DNS_LOOKUPS)}, not {client_dns_lookup!r}"
        )
    proxy = None if proxy_url is None else _proxy(proxy_url, proxy_ssl_context)
    if proxy is None and proxy_ssl_context is not None:
        raise KafkaConfigurationError("`proxy_ssl_context` requires `proxy_url`")
    trigger = milliseconds(
        "metadata_recovery_rebootstrap_trigger_ms",
        metadata_recovery_rebootstrap_trigger_ms,
    )
    recovers = metadata_recovery_strategy == "rebootstrap"
    return ConnectionOptions(
        proxy=proxy,
        canonical_bootstrap=client_dns_lookup == DNS_LOOKUPS[1],
        rebootstrap_after=trigger if recovers else None,
        check_identity=recovers and metadata_cluster_check_enable,
        client_id=client_id,
        request_timeout=request_timeout,
        connections_max_idle=None
        if connections_max_idle_ms is None
        else milliseconds("connections_max_idle_ms", connections_max_idle_ms, least=1, most=INT64),
        max_response_bytes=max_response_bytes,
        reconnect_backoff=milliseconds("reconnect_backoff_ms", reconnect_backoff_ms),
        reconnect_backoff_max=milliseconds("reconnect_backoff_max_ms", reconnect_backoff_max_ms),
        connect_timeout=milliseconds(
            "socket_connection_setup_timeout_ms", socket_connection_setup_timeout_ms, least=1
        ),
        connect_timeout_max=milliseconds(
            "socket_connection_setup_timeout_max_ms",
            socket_connection_setup_timeout_max_ms,
            least=1,
        ),
        send_buffer_bytes=size("send_buffer_bytes", send_buffer_bytes, least=-1),
        receive_buffer_bytes=size("receive_buffer_bytes", receive_buffer_bytes, least=-1),
        security_protocol=security_protocol,
        ssl_context=context,
        mechanism=mechanism,
    )


def _tls(
    client_id: str | None,
    security_protocol: str,
    ssl_context: ssl.SSLContext | None,
    arguments: dict[str, object],
) -> ssl.SSLContext | TlsContexts | None:
    """Check the TLS arguments; return the context that they describe."""
    encrypts = security_protocol in ("SSL", "SASL_SSL")
    unset = (
        arguments["ssl_check_hostname"] is True
        and arguments["ssl_enabled_protocols"] == _TLS_VERSIONS
        and sum(value is not None for value in arguments.values()) == 2
    )
    if unset and (ssl_context is not None or not encrypts):
        _arguments.check_security(security_protocol, ssl_context)
        return ssl_context
    from aiokafka_lite.net.tls.tls_contexts import TlsContexts
    from aiokafka_lite.net.tls.tls_options import TlsOptions, tls_options

    tls = tls_options(arguments)
    _arguments.check_security(security_protocol, ssl_context, tls != TlsOptions())
    if ssl_context is None and encrypts:
        return TlsContexts(tls, client_id or "client")
    return ssl_context


def _proxy(url: object, context: object) -> Proxy:
    from aiokafka_lite.net.route.proxies import parse_proxy

    return parse_proxy(url, context)
