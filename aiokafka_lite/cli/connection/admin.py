"""Converts a client's arguments to those of the admin client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["CONNECTION_ARGUMENTS", "admin_arguments"]

CONNECTION_ARGUMENTS: Final = (
    "client_dns_lookup",
    "connections_max_idle_ms",
    "metadata_cluster_check_enable",
    "metadata_recovery_rebootstrap_trigger_ms",
    "metadata_recovery_strategy",
    "proxy_url",
    "sasl_kerberos_cache",
    "sasl_kerberos_domain_name",
    "sasl_kerberos_keytab",
    "sasl_kerberos_principal",
    "sasl_kerberos_service_name",
    "sasl_mechanism",
    "sasl_oauth_token_provider",
    "sasl_plain_password",
    "sasl_plain_username",
    "sasl_scram_tokenauth",
    "security_protocol",
    "ssl_cadata",
    "ssl_cafile",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_ciphers",
    "ssl_context",
    "ssl_enabled_protocols",
    "ssl_keyfile",
    "ssl_password",
)
"""The connection arguments that all clients have."""

_TAKEN: Final = (
    *CONNECTION_ARGUMENTS,
    "bootstrap_servers",
    "client_id",
    "metadata_max_age_ms",
    "request_timeout_ms",
    "retry_backoff_max_ms",
    "retry_backoff_ms",
)


def admin_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a client's arguments that `AIOKafkaAdminClient` takes."""
    taken = {name: arguments[name] for name in _TAKEN if name in arguments}
    return taken | {"default_api_timeout_ms": arguments["request_timeout_ms"]}
