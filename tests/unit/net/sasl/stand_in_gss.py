"""A GSS-API without cryptography, for the embedded broker's GSSAPI and for scripted ones."""

import threading

from aiokafka_lite.errors import AuthenticationFailedError
from aiokafka_lite.net.gss import KerberosLogin

WRAPPED = b"wrapped:"


class StandInGss:
    """Makes contexts, as `NewContext`; the login's principal is the user.

    Attributes:
        services: The services of all contexts.
        closed: Number of closed contexts.
        threads: The threads in which steps ran.
        failure: Raised by the first step, if set.
        rounds: Number of the broker's tokens that complete a context.
        silent: If set, the first step waits for it, as for a KDC.
    """

    def __init__(self) -> None:
        self.services: list[str] = []
        self.closed = 0
        self.threads: set[threading.Thread] = set()
        self.failure: Exception | None = None
        self.rounds = 1
        self.silent: threading.Event | None = None

    def __call__(self, login: KerberosLogin, service: str) -> "StandInContext":
        self.services.append(service)
        return StandInContext(self, login, service)


class StandInContext:
    def __init__(self, gss: StandInGss, login: KerberosLogin, service: str) -> None:
        self._gss = gss
        self._login = login
        self._service = service
        self._received = 0
        self.complete = False

    def step(self, token: bytes | None) -> bytes:
        self._gss.threads.add(threading.current_thread())
        if token is None:
            if self._gss.silent is not None:
                self._gss.silent.wait(60)
            if self._gss.failure is not None:
                raise self._gss.failure
            return f"ticket of {self._login.principal} for {self._service}".encode()
        if token != b"accepted":
            raise AuthenticationFailedError("Invalid token was supplied")
        self._received += 1
        self.complete = self._received >= self._gss.rounds
        return b""

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(WRAPPED):
            raise AuthenticationFailedError("A token had an invalid Message Integrity Check")
        return message.removeprefix(WRAPPED)

    def wrap(self, message: bytes) -> bytes:
        return WRAPPED + message

    def close(self) -> None:
        self._gss.closed += 1
