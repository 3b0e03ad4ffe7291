"""Connects a Python worker of Spark before it imports anything.

A worker that Spark does not fork, such as the source of a stream, has ten seconds to connect and
ten to authenticate, and Spark has no setting for more. pyspark connects only after it has imported
numpy and pyarrow, which takes longer on a busy machine. Python runs this module at its start,
because the harness puts its folder on the path of the workers.

pyspark then connects to a path, as to a Unix socket, which needs no authentication, and gets the
connection made here.
"""

from __future__ import annotations

import os

PORT, SECRET = "PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET"
PATH = "PYTHON_WORKER_FACTORY_SOCK_PATH"
CONNECTED = "connected at start"
PATIENCE = 60  # seconds


def connect(port: int, secret: bytes) -> None:
    """Connect and authenticate, and keep the connection for pyspark."""
    import socket
    import struct

    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
    made = socket.create_connection((host, port), PATIENCE)
    made.sendall(struct.pack("!i", len(secret)) + secret)
    with made.makefile("rb") as answers:
        (size,) = struct.unpack("!i", answers.read(4))
        if (answer := answers.read(size)) != b"ok":
            raise ConnectionError(f"Spark refused the secret of its worker: {answer!r}")
    made.settimeout(None)
    usual = socket.socket.connect

    def connect_or_take(self: socket.socket, address: tuple[str, int] | str) -> None:
        if address == CONNECTED:
            os.dup2(made.fileno(), self.fileno())
            made.close()
        else:
            usual(self, address)

    socket.socket.connect = connect_or_take  # type: ignore[method-assign, assignment]
    os.environ[PATH] = CONNECTED


if PORT in os.environ and SECRET in os.environ:
    # Removed, because a process that the worker starts must not connect.
    connect(int(os.environ.pop(PORT)), os.environ.pop(SECRET).encode())
