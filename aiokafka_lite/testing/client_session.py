"""The broker's view of a connection: the client's address and identity."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiokafka_lite.testing.security.authentication import Authentication

__all__ = ["ANONYMOUS", "Session"]

ANONYMOUS: Final = "User:ANONYMOUS"


class Session:
    """The session of a connection, passed to every API with each request.

    Attributes:
        connection_id: Number of the connection, counted across the cluster from 0.
        client_host: The client's address, as in group descriptions ("/127.0.0.1").
        principal: The client's principal ("User:alice"); `ANONYMOUS` before authentication.
        authentication: The SASL state; None on a listener without SASL.
        software: Name and version of the client's software, as ApiVersions reported them.
        port: The client's port; -1 if unknown.
    """

    __slots__ = (
        "authentication",
        "client_host",
        "connection_id",
        "port",
        "principal",
        "software",
    )

    def __init__(
        self,
        connection_id: int,
        client_host: str = "/127.0.0.1",
        authentication: "Authentication | None" = None,
    ) -> None:
        self.connection_id = connection_id
        self.client_host = client_host
        self.principal = ANONYMOUS
        self.authentication = authentication
        self.software = ("unknown", "unknown")
        self.port = -1

    @property
    def address(self) -> str:
        """The client's address without the slash, as in ACLs."""
        return self.client_host.removeprefix("/")

    @property
    def user(self) -> str:
        """The principal's name without its type, as in quotas."""
        return self.principal.partition(":")[2]
