"""One broker of the cluster."""

__all__ = ["Node"]


class Node:
    """One broker as the others know it. ``port`` is 0 until it listens for the first time."""

    __slots__ = ("alive", "host", "node_id", "port", "rack")

    def __init__(self, node_id: int, host: str, rack: str | None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = 0
        self.rack = rack
        self.alive = False
