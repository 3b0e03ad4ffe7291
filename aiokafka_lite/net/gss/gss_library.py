"""Security contexts of MIT's C library libgssapi_krb5, called by ctypes.

It is part of most Linux systems, where curl and ssh use it.

Source: RFC 2744; gssapi_ext.h of MIT Kerberos for gss_acquire_cred_from.
"""

import ctypes
import ctypes.util
import os
import sys
from typing import Any, Final

from aiokafka_lite.errors import AuthenticationFailedError
from aiokafka_lite.net.gss.gss_context import KerberosLogin, gss_failure

__all__ = ["LibraryContext", "find_library"]

_KRB5_OID: Final = bytes.fromhex("2a864886f712010202")
_HOSTBASED_SERVICE_OID: Final = bytes.fromhex("2a864886f71201020104")
_KRB5_PRINCIPAL_OID: Final = bytes.fromhex("2a864886f71201020201")

_MUTUAL: Final = 2
_REPLAY: Final = 4
_SEQUENCE: Final = 8
_INTEGRITY: Final = 32
_FLAGS: Final = _MUTUAL | _REPLAY | _SEQUENCE | _INTEGRITY
_NEEDED: Final = _MUTUAL | _INTEGRITY

_CONTINUE_NEEDED: Final = 1
_ERRORS: Final = 0xFFFF0000
"""The bits of a major status that are errors; the others are information."""

_INITIATE: Final = 1
_GSS_CODE: Final = 1
_MECHANISM_CODE: Final = 2
_MOST_TEXTS: Final = 8

_Pointer = ctypes.c_void_p
_uint32 = ctypes.c_uint32


class _Oid(ctypes.Structure):
    _fields_ = (("length", _uint32), ("elements", ctypes.c_char_p))


class _OidSet(ctypes.Structure):
    _fields_ = (("count", ctypes.c_size_t), ("elements", ctypes.POINTER(_Oid)))


class _Buffer(ctypes.Structure):
    _fields_ = (("length", ctypes.c_size_t), ("value", _Pointer))


class _KeyValue(ctypes.Structure):
    _fields_ = (("key", ctypes.c_char_p), ("value", ctypes.c_char_p))


class _KeyValues(ctypes.Structure):
    _fields_ = (("count", _uint32), ("elements", ctypes.POINTER(_KeyValue)))


_ARGUMENTS: Final[dict[str, tuple[Any, ...]]] = {
    "gss_import_name": (_Pointer, _Pointer, _Pointer),
    "gss_acquire_cred_from": (
        *(_Pointer, _uint32, _Pointer, ctypes.c_int, _Pointer),
        *(_Pointer, _Pointer, _Pointer),
    ),
    "gss_init_sec_context": (
        *(_Pointer, _Pointer, _Pointer, _Pointer, _uint32, _uint32, _Pointer, _Pointer),
        *(_Pointer, _Pointer, _Pointer, _Pointer),
    ),
    "gss_wrap": (_Pointer, ctypes.c_int, _uint32, _Pointer, _Pointer, _Pointer),
    "gss_unwrap": (_Pointer, _Pointer, _Pointer, _Pointer, _Pointer),
    "gss_display_status": (_uint32, ctypes.c_int, _Pointer, _Pointer, _Pointer),
    "gss_release_buffer": (_Pointer,),
    "gss_release_name": (_Pointer,),
    "gss_release_cred": (_Pointer,),
    "gss_delete_sec_context": (_Pointer, _Pointer),
}
"""The arguments of each function after the first, the minor status."""

_NAMES: Final = ("libgssapi_krb5.so.2", "libgssapi_krb5.dylib")


def find_library() -> ctypes.CDLL | None:
    """Return libgssapi_krb5 with its functions' types set; None if it is not installed."""
    if sys.platform == "win32":
        return None
    for name in (*_NAMES, ctypes.util.find_library("gssapi_krb5")):
        if name is None:
            continue
        try:
            library = ctypes.CDLL(name)
            for function, arguments in _ARGUMENTS.items():
                typed = getattr(library, function)
                typed.argtypes = (ctypes.POINTER(_uint32), *arguments)
                typed.restype = _uint32
        except (OSError, AttributeError):
            continue  # not installed, or another library of that name
        return library
    return None


class LibraryContext:
    """A context; see `SecurityContext`.

    Args:
        library: The library, from `find_library`.
        login: The client's credentials.
        service: The broker's service, such as "kafka@broker.example".
    """

    def __init__(self, library: ctypes.CDLL, login: KerberosLogin, service: str) -> None:
        self.complete = False
        self._library = library
        self._login = login
        self._service = service
        self._mechanism = _Oid(len(_KRB5_OID), _KRB5_OID)
        self._target = _Pointer()
        self._credentials = _Pointer()
        self._context = _Pointer()

    def step(self, token: bytes | None) -> bytes:
        if token is None:
            self._login.check()
            self._target = self._import(self._service.encode(), _HOSTBASED_SERVICE_OID)
            self._acquire()
        given, output, flags = _filled(token or b""), _Buffer(), _uint32()
        major = self._call(
            "gss_init_sec_context",
            *(self._credentials, ctypes.byref(self._context), self._target),
            *(ctypes.byref(self._mechanism), _FLAGS, 0, None, ctypes.byref(given), None),
            *(ctypes.byref(output), ctypes.byref(flags), None),
        )
        answer = self._taken(output)
        if not major & _CONTINUE_NEEDED:
            if flags.value & _NEEDED != _NEEDED:
                raise AuthenticationFailedError(
                    f"GSSAPI with {self._service} failed: the broker did not authenticate itself"
                )
            self.complete = True
        return answer

    def unwrap(self, message: bytes) -> bytes:
        given, output = _filled(message), _Buffer()
        self._call(
            *("gss_unwrap", self._context, ctypes.byref(given), ctypes.byref(output), None, None)
        )
        return self._taken(output)

    def wrap(self, message: bytes) -> bytes:
        given, output = _filled(message), _Buffer()
        self._call(
            *("gss_wrap", self._context, 0, 0, ctypes.byref(given), None, ctypes.byref(output))
        )
        return self._taken(output)

    def close(self) -> None:
        minor = ctypes.byref(_uint32())
        if self._context.value:
            self._library.gss_delete_sec_context(minor, ctypes.byref(self._context), None)
        if self._target.value:
            self._library.gss_release_name(minor, ctypes.byref(self._target))
        if self._credentials.value:
            self._library.gss_release_cred(minor, ctypes.byref(self._credentials))

    def _acquire(self) -> None:
        """Acquire the login's credentials; without any, the context uses GSS's defaults."""
        store = self._login.store()
        principal = self._login.principal
        if not store and principal is None:
            return
        name = _Pointer()
        if principal is not None:
            name = self._import(principal.encode(), _KRB5_PRINCIPAL_OID)
        try:
            elements = (_KeyValue * max(len(store), 1))(
                *(_KeyValue(key.encode(), os.fsencode(value)) for key, value in store.items())
            )
            values = _KeyValues(len(store), elements)
            mechanisms = _OidSet(1, ctypes.pointer(self._mechanism))
            self._call(
                "gss_acquire_cred_from",
                *(name, 0, ctypes.byref(mechanisms), _INITIATE, ctypes.byref(values)),
                *(ctypes.byref(self._credentials), None, None),
            )
        finally:
            if name.value:
                self._library.gss_release_name(ctypes.byref(_uint32()), ctypes.byref(name))

    def _import(self, text: bytes, kind: bytes) -> _Pointer:
        given, oid, name = _filled(text), _Oid(len(kind), kind), _Pointer()
        self._call("gss_import_name", ctypes.byref(given), ctypes.byref(oid), ctypes.byref(name))
        return name

    def _call(self, function: str, *arguments: object) -> int:
        """Call a function and return its major status.

        Raises:
            AuthenticationFailedError, KafkaConnectionError: The status is an error.
        """
        minor = _uint32()
        major = int(getattr(self._library, function)(ctypes.byref(minor), *arguments))
        if major & _ERRORS:
            texts = (*self._texts(major, _GSS_CODE), *self._texts(minor.value, _MECHANISM_CODE))
            raise gss_failure(self._login, self._service, minor.value, ": ".join(texts))
        return major

    def _texts(self, status: int, kind: int) -> list[str]:
        texts: list[str] = []
        more = _uint32()
        while len(texts) < _MOST_TEXTS:
            output = _Buffer()
            failed = self._library.gss_display_status(
                *(ctypes.byref(_uint32()), status, kind, ctypes.byref(self._mechanism)),
                *(ctypes.byref(more), ctypes.byref(output)),
            )
            if failed & _ERRORS:
                break
            texts.append(self._taken(output).decode(errors="replace"))
            if not more.value:
                break
        return texts

    def _taken(self, output: _Buffer) -> bytes:
        """Return a copy of the library's buffer and release it."""
        data = ctypes.string_at(output.value, output.length) if output.value else b""
        self._library.gss_release_buffer(ctypes.byref(_uint32()), ctypes.byref(output))
        return data


def _filled(data: bytes) -> _Buffer:
    # The pointer keeps no reference: the caller's `data` outlives the call.
    return _Buffer(len(data), ctypes.cast(ctypes.c_char_p(data), _Pointer))
