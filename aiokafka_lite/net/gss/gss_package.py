"""Security contexts of the package `gssapi`."""

import importlib
from typing import Any

from aiokafka_lite.errors import AuthenticationFailedError, KafkaConfigurationError
from aiokafka_lite.net.gss.gss_context import KerberosLogin, gss_failure

__all__ = ["PackageContext", "find_package"]


def find_package() -> Any:
    """Return the package `gssapi`; None if it is not installed or finds no GSS-API library."""
    try:
        importlib.import_module("gssapi.exceptions")
        return importlib.import_module("gssapi")
    except (ImportError, OSError):
        return None


class PackageContext:
    """A context; see `SecurityContext`.

    Args:
        package: The package, from `find_package`.
        login: The client's credentials.
        service: The broker's service, such as "kafka@broker.example".
    """

    def __init__(self, package: Any, login: KerberosLogin, service: str) -> None:
        self.complete = False
        self._package = package
        self._login = login
        self._service = service
        self._context: Any = None

    def step(self, token: bytes | None) -> bytes:
        package = self._package
        try:
            if token is None:
                self._login.check()
                self._context = self._begin()
            answer: bytes | None = self._context.step(token)
            if self._context.complete:
                flags = package.RequirementFlag
                granted = self._context.actual_flags
                if not (granted & flags.mutual_authentication and granted & flags.integrity):
                    raise AuthenticationFailedError(
                        f"GSSAPI with {self._service} failed: the broker did not authenticate "
                        "itself"
                    )
                self.complete = True
        except package.exceptions.GSSError as error:
            raise self._failure(error) from None
        return answer or b""

    def unwrap(self, message: bytes) -> bytes:
        try:
            return bytes(self._context.unwrap(message).message)
        except self._package.exceptions.GSSError as error:
            raise self._failure(error) from None

    def wrap(self, message: bytes) -> bytes:
        try:
            return bytes(self._context.wrap(message, False).message)
        except self._package.exceptions.GSSError as error:
            raise self._failure(error) from None

    def close(self) -> None:
        self._context = None

    def _begin(self) -> Any:
        package, login = self._package, self._login
        kerberos = package.MechType.kerberos
        credentials = None
        store = login.store()
        if store or login.principal is not None:
            name = None
            if login.principal is not None:
                name = package.Name(login.principal, package.NameType.kerberos_principal)
            try:
                credentials = package.Credentials(
                    name=name, usage="initiate", mechs=[kerberos], store=store or None
                )
            except NotImplementedError as error:
                raise KafkaConfigurationError(
                    "this GSS-API library takes no keytab or cache: set KRB5_CLIENT_KTNAME or "
                    "KRB5CCNAME in place of `sasl_kerberos_keytab` and `sasl_kerberos_cache`"
                ) from error
        flags = package.RequirementFlag
        return package.SecurityContext(
            name=package.Name(self._service, package.NameType.hostbased_service),
            creds=credentials,
            mech=kerberos,
            flags=flags.mutual_authentication
            | flags.replay_detection
            | flags.out_of_sequence_detection
            | flags.integrity,
            usage="initiate",
        )

    def _failure(self, error: Any) -> Exception:
        return gss_failure(self._login, self._service, error.min_code, error.gen_message())
