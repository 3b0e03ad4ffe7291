"""GSS-API security contexts for Kerberos, as SASL/GSSAPI uses them.

- `gss_context`: what a context does, its credentials, and the errors of GSS;
- `gss_package`: contexts of the package `gssapi`;
- `gss_library`: contexts of the C library libgssapi_krb5, by ctypes, without that package;
- `gss_choice`: the first of these two that is installed.

Calls may block, because GSS may ask the KDC for a ticket: make them in a thread.
"""

from aiokafka_lite.net.gss.gss_choice import new_context
from aiokafka_lite.net.gss.gss_context import KerberosLogin, SecurityContext

__all__ = ["KerberosLogin", "SecurityContext", "new_context"]
