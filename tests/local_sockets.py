"""TCP sockets of the same process that deliver at once.

The kernel delivers asynchronously over the loopback interface: on a busy machine, bytes that one
end has written may reach the other end milliseconds later. A test that skips idle time must not
skip such a delivery. `LocalSocket` looks like a TCP socket to asyncio, but is an AF_UNIX socket,
where every write, close and connect has taken effect at the other end when the call returns.
"""

import itertools
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

__all__ = ["LOCAL_SOCKETS", "LocalSocket", "local_sockets"]

LOCAL_SOCKETS: Final = sys.platform == "linux"
"""True if this platform has local sockets with abstract names."""

_PORTS: Final = itertools.count(20_000)
_RUN: Final = os.urandom(8).hex()  # keeps the names of concurrent test processes apart


class LocalSocket(socket.socket):
    """An AF_UNIX socket that takes and returns addresses of the form (host, port).

    Its name is abstract (Linux), so no file is left behind.
    """

    _address: tuple[str, int] = ("127.0.0.1", 0)
    _peer: tuple[str, int] = ("127.0.0.1", 0)

    def __init__(
        self, family: int = -1, kind: int = -1, number: int = -1, fileno: int | None = None
    ) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno)

    def bind(self, address: Any, /) -> None:
        """Bind to a host and a port; port 0 chooses one."""
        host, port = address
        port = port or next(_PORTS)
        super().bind(_name(port))
        self._address = (host, port)

    def connect(self, address: Any, /) -> None:
        """Connect to a port; every host is this one."""
        super().connect(_name(address[1]))
        self._peer = (address[0], address[1])

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection and its address."""
        accepted, _ = super().accept()
        connection = LocalSocket(fileno=accepted.detach())
        connection._address = self._address
        return connection, connection._peer

    def getsockname(self) -> Any:
        """Return the host and port."""
        return self._address

    def getpeername(self) -> Any:
        """Return the host and port of the other end; the port of a client is 0."""
        return self._peer

    def setsockopt(self, level: int, *arguments: Any) -> None:
        """Set an option; TCP's have no meaning here."""
        if level != socket.IPPROTO_TCP:
            super().setsockopt(level, *arguments)


def _name(port: int) -> str:
    return f"\0aiokafka_lite-{_RUN}-{port}"


class _LocalModule(ModuleType):
    """The `socket` module, whose sockets are local."""

    socket = LocalSocket

    def __getattr__(self, name: str) -> Any:
        return getattr(socket, name)


@contextmanager
def local_sockets(*modules: ModuleType) -> Iterator[None]:
    """Let modules that `import socket` create local sockets."""
    with ExitStack() as patches:
        for module in modules:
            patches.enter_context(patch.object(module, "socket", _LocalModule("socket")))
        yield
