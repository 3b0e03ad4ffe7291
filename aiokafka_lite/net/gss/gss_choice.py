"""Chooses between the implementations of GSS-API that are installed."""

from functools import cache

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.net.gss.gss_context import KerberosLogin, NewContext, SecurityContext
from aiokafka_lite.net.gss.gss_library import LibraryContext, find_library
from aiokafka_lite.net.gss.gss_package import PackageContext, find_package

__all__ = ["find_implementation", "new_context"]


@cache
def find_implementation() -> NewContext | None:
    """Return the package `gssapi` if it is installed, otherwise the C library; None without
    either."""
    package = find_package()
    if package is not None:
        return lambda login, service: PackageContext(package, login, service)
    library = find_library()
    if library is not None:
        return lambda login, service: LibraryContext(library, login, service)
    return None


def new_context(login: KerberosLogin, service: str) -> SecurityContext:
    """Return a new context.

    Raises:
        KafkaConfigurationError: No implementation of GSS-API is installed.
    """
    implementation = find_implementation()
    if implementation is None:
        raise KafkaConfigurationError(
            "GSSAPI needs Kerberos's client library: install libgssapi-krb5-2 (Debian), krb5-libs "
            "(Fedora, Red Hat) or krb5 (Homebrew), or the package aiokafka_lite[gssapi]"
        )
    return implementation(login, service)
