"""One broker of the cluster."""

__all__ = ["Node"]


class Node:
    """A broker as its cluster describes it.

    Attributes:
        host: The host advertised to clients.
        listens_on: The address that it binds; `host` by default.
        port: 0 until it first listens.
        registered: True until the broker is unregistered, whether it is running or not.
    """

    __slots__ = ("alive", "host", "listens_on", "node_id", "port", "rack", "registered")

    def __init__(
        self,
        node_id: int,
        host: str,
        rack: str | None,
        *,
        port: int = 0,
        listens_on: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.listens_on = listens_on or host
        self.port = port
        self.rack = rack
        self.alive = False
        self.registered = True
