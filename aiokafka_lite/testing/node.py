"""One broker of the cluster."""

__all__ = ["Node"]


class Node:
    """One broker as the others know it.

    Attributes:
        host: Where clients are told that it is.
        listens_on: The address that it really listens on; `host` unless told otherwise.
        port: 0 until it listens for the first time.
        registered: The controller knows it, dead or alive, until it is unregistered.
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
